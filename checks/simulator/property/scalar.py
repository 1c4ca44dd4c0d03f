"""One thread at a time, one instruction at a time: a PTX interpreter in plain Python, to compare final memory with.

It shares the parser and nothing else with the simulator. A register is a slot of a list that holds raw bits as a Python
integer; constants have slots of their own. A thread runs until it ends or reaches a barrier or a warp instruction; that
is executed when every thread of its block or warp that has not ended has reached it. Integers and float32 are computed
here; ``semantics_reference`` computes rarer instructions with exact fractions.

It covers what ``programs.py`` writes, and raises ``NotImplementedError`` for anything else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from checks.simulator.semantics_reference import expected
from gemm_lessons.engine.ptx.records import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    PredicatePair,
    Register,
    Symbol,
    Vector,
)
from gemm_lessons.engine.records.launch import Grid

SHARED, LOCAL, GLOBAL = 1 << 40, 2 << 40, 3 << 40  # where generic addresses of each kind begin
FIRST_SHARED = 1024  # the address of a block's first array on sm_90, as its machine code has it
STEPS = 200_000  # of one thread: more is an endless loop
WARP = 32
BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, **{f"{k}{n}": n for k in "busf" for n in (16, 32, 64)}}
Step = Callable[["Thread"], int | None]  # returns the index of the next instruction; None: the following one


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


# ---- float32: exact integers times powers of two, rounded once -------------------------------------------------------


def parts(bits: int) -> tuple[int, int]:
    """A finite float32 as (integer, exponent of two)."""
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    value = fraction | (0x800000 if exponent else 0)
    return (-value if bits >> 31 else value), max(exponent, 1) - 150


def is_nan(bits: int) -> bool:
    return bits & 0x7FFFFFFF > 0x7F800000


def rounded(value: int, exponent: int) -> int:
    """``value * 2**exponent`` (not zero) as float32 bits, to nearest, ties to even."""
    sign, value = (0x80000000, -value) if value < 0 else (0, value)
    drop = max(value.bit_length() - 24, -149 - exponent)  # bits that do not fit
    if drop > 0:
        low, value = value & ((1 << drop) - 1), value >> drop
        half = 1 << (drop - 1)
        value += low > half or (low == half and value & 1)
        exponent += drop
    else:
        value, exponent = value << -drop, exponent + drop
    if value >> 24:
        value, exponent = value >> 1, exponent + 1
    if exponent + 23 > 127:
        return sign | 0x7F800000
    return sign | ((exponent + 150) << 23) + value - 0x800000 if value >> 23 else sign | value


def fma(a: int, b: int, c: int) -> int:
    """``fma.rn.f32`` on bits. A NaN is always 0x7fffffff."""
    if is_nan(a) or is_nan(b) or is_nan(c):
        return 0x7FFFFFFF
    sign = (a ^ b) & 0x80000000
    infinite = a & 0x7FFFFFFF == 0x7F800000 or b & 0x7FFFFFFF == 0x7F800000
    if infinite:
        zero = not a & 0x7FFFFFFF or not b & 0x7FFFFFFF
        product = sign | 0x7F800000
        return 0x7FFFFFFF if zero or (c & 0x7FFFFFFF == 0x7F800000 and c != product) else product
    if c & 0x7FFFFFFF == 0x7F800000:
        return c
    (x, ex), (y, ey), (z, ez) = parts(a), parts(b), parts(c)
    low = min(ex + ey, ez)
    total = (x * y << (ex + ey - low)) + (z << (ez - low))
    if total:
        return rounded(total, low)
    return 0x80000000 if not x * y and not z and sign and c >> 31 else 0


def order(bits: int) -> int:
    """float32 bits (not NaN) as integers of the same order, -0 just below +0."""
    return ~(bits & 0x7FFFFFFF) if bits >> 31 else bits


def extreme(pick: Callable[..., int], a: int, b: int) -> int:
    if is_nan(a) or is_nan(b):
        return 0x7FFFFFFF if is_nan(a) and is_nan(b) else (b if is_nan(a) else a)
    return pick(a, b, key=order)


def compared(relation: str, a: int, b: int) -> int:
    if is_nan(a) or is_nan(b):
        return int(relation.endswith("u") or relation == "nan")
    x, y = (0 if not v & 0x7FFFFFFF else order(v) for v in (a, b))
    return _relation(relation.removesuffix("u"), x, y)


def _relation(relation: str, x: int, y: int) -> int:
    return int({"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y,
                "lo": x < y, "ls": x <= y, "hi": x > y, "hs": x >= y, "num": True, "nan": False}[relation])  # fmt: skip


ONE, SIGN = 0x3F800000, 0x80000000
FLOATS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: fma(a, ONE, b), "sub": lambda a, b: fma(b, ONE | SIGN, a), "mul": lambda a, b: fma(a, b, SIGN),
    "fma": fma, "min": functools.partial(extreme, min), "max": functools.partial(extreme, max),
}  # fmt: skip


# ---- integers --------------------------------------------------------------------------------------------------------


def integer(name: str, modifiers: Sequence[str]) -> Callable[..., int] | None:
    """A function of raw bits for the instructions that most programs are made of."""
    code = modifiers[-1]
    if code[0] not in "bus" or len(code) > 3 or int(code[1:]) < 16:
        return None
    bits = int(code[1:])
    mask = (1 << bits) - 1
    see = functools.partial(signed, bits=bits) if code[0] == "s" else int
    if name in ("mul", "mad") and modifiers[0] == "wide":
        wide = (1 << 2 * bits) - 1
        return lambda a, b, c=0: see(a) * see(b) + c & wide
    if name in ("mul", "mad"):
        shift = bits if modifiers[0] == "hi" else 0
        return lambda a, b, c=0: (see(a) * see(b) >> shift) + c & mask
    if name == "setp":
        return lambda a, b: _relation(modifiers[0], see(a), see(b))
    if name == "shr":
        return lambda a, b: see(a) >> min(b, bits) & mask
    table: dict[str, Callable[..., int]] = {
        "add": lambda a, b: a + b & mask, "sub": lambda a, b: a - b & mask, "neg": lambda a: -a & mask,
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a: ~a & mask,
        "shl": lambda a, b: a << b & mask if b < bits else 0, "abs": lambda a: abs(see(a)) & mask,
        "min": lambda a, b: min(see(a), see(b)) & mask, "max": lambda a, b: max(see(a), see(b)) & mask,
    }  # fmt: skip
    return table.get(name)


def function_of(instruction: Instruction) -> Callable[..., int]:
    """Raw bits in, raw bits out."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if modifiers == ("pred",):
        of_predicates: dict[str, Callable[..., int]] = {
            "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a: 1 - a,
            "mov": lambda a: a,
        }  # fmt: skip
        return of_predicates[opcode]
    if opcode == "mov":
        return lambda a: a
    if opcode == "selp":
        return lambda a, b, p: a if p else b
    if modifiers[-1] == "f32" and opcode in FLOATS and set(modifiers[:-1]) <= {"rn"}:
        return FLOATS[opcode]
    if modifiers[-1] == "f32" and opcode == "setp" and len(modifiers) == 2:
        return functools.partial(compared, modifiers[0])
    if (found := integer(opcode, modifiers)) is not None:
        return found
    return functools.partial(_rare, instruction.full_opcode)


@functools.lru_cache(maxsize=1 << 15)
def _rare(name: str, *sources: int) -> int:
    result = expected(name, list(sources))
    assert isinstance(result, list), name
    return int(result[0])


# ---- threads and memory ----------------------------------------------------------------------------------------------


def _inside(memory: bytearray, start: int, size: int) -> bool:
    return 0 <= start <= len(memory) - size and start % size == 0


class Undefined(Exception):
    """The program's result is undefined in PTX: a shuffle from a lane that does not take part."""


class Thread:
    """One thread: its slots, local memory and place."""

    def __init__(self, slots: list[int], shared: bytearray, local: bytearray, lane: int) -> None:
        self.slots, self.shared, self.local, self.lane = slots, shared, local, lane
        self.at: int | None = 0  # next instruction; None: ended


class Interpreter:
    """One launch. ``buffers`` are the arguments that are pointers, in order; they are written in place."""

    def __init__(self, kernel: Kernel, grid: Grid, buffers: Sequence[bytearray], scalars: Sequence[bytes]) -> None:
        self.kernel, self.grid, self.buffers = kernel, grid, buffers
        self.names: dict[str, int] = {name: n for n, name in enumerate(kernel.registers)}
        self.initial = [0 if kind == "pred" else (1 << BITS[kind]) - 1 for kind in kernel.registers.values()]
        self.special: list[tuple[int, str]] = []
        self.variables: dict[str, int] = {}
        self.sizes = {"shared": FIRST_SHARED, "local": 0}
        for variable in kernel.variables:
            start = -(-self.sizes[variable.space] // variable.align) * variable.align
            self.variables[variable.name] = start
            self.sizes[variable.space] = start + variable.size
        values = [*((GLOBAL + (n << 36)).to_bytes(8, "little") for n in range(len(buffers))), *scalars]
        self.parameters = {p.name: value for p, value in zip(kernel.parameters, values, strict=True)}
        self.code: list[Step | None] = [self._guarded(i) for i in kernel.instructions]
        self.meetings = {
            i.index: self._meeting(i) for i, step in zip(kernel.instructions, self.code, strict=True) if step is None
        }

    # -- operands --

    def width(self, name: str) -> int:
        return BITS[self.kernel.registers[name]]

    def slot(self, operand: Operand | None, bits: int = 64) -> int:
        """The slot that holds an operand's value."""
        if isinstance(operand, Register) and operand.name in self.names:
            return self.names[operand.name]
        self.initial.append(0)
        place = len(self.initial) - 1
        if isinstance(operand, Register):
            self.special.append((place, operand.name))
            self.names[operand.name] = place
        elif isinstance(operand, Immediate):
            self.initial[place] = operand.value & ((1 << bits) - 1)
        elif isinstance(operand, Symbol):
            self.initial[place] = self.variables[operand.name] + operand.offset
        else:
            raise NotImplementedError(f"operand {operand}")
        return place

    def memory(self, space: str, address: Operand) -> Callable[[Thread], tuple[bytearray, int]]:
        """A function from a thread to the memory that an address of ``space`` ("" = generic) is in, and the offset."""
        assert isinstance(address, Address)
        base, offset = self.slot(address.base), address.offset
        wide = not isinstance(address.base, Register) or self.width(address.base.name) == 64

        def generic(thread: Thread) -> tuple[bytearray, int]:
            full = thread.slots[base] + offset
            if full >= GLOBAL:
                return self.buffers[full - GLOBAL >> 36], full & (1 << 36) - 1
            return (thread.local, full - LOCAL) if full >= LOCAL else (thread.shared, full - SHARED)

        def window(thread: Thread) -> tuple[bytearray, int]:
            start = thread.slots[base]
            at = signed(start, 64 if wide else 32) + offset
            return (thread.shared if space == "shared" else thread.local), at

        return window if space in ("shared", "local") else generic

    # -- one instruction --

    def _guarded(self, instruction: Instruction) -> Step | None:
        step = self._step(instruction)
        if instruction.guard is None or step is None:
            return step
        guard, wanted = self.slot(instruction.guard), 0 if instruction.guard_negated else 1
        return lambda thread: step(thread) if thread.slots[guard] == wanted else None

    def _step(self, instruction: Instruction) -> Step | None:
        opcode = instruction.opcode
        if opcode in ("bar", "shfl", "vote", "activemask"):
            return None  # threads meet here
        if opcode == "bra":
            target = instruction.operands[0]
            assert isinstance(target, Symbol)
            to = self.kernel.labels[target.name]
            return lambda thread: to
        if opcode in ("ret", "exit"):
            return lambda thread: -1
        if opcode in ("ld", "st"):
            return self._move(instruction)
        if opcode in ("red", "atom"):
            return self._atomic(instruction)
        if opcode == "cp":
            return self._copy(instruction)
        if opcode == "cvta":
            return self._generic(instruction)
        if opcode == "mov" and any(isinstance(operand, Vector) for operand in instruction.operands):
            return self._pieces(instruction)
        return self._compute(instruction)

    def _compute(self, instruction: Instruction) -> Step:
        target, *sources = instruction.operands
        first, second = (target.first, target.second) if isinstance(target, PredicatePair) else (target, None)
        code = instruction.modifiers[-1]
        bits = BITS.get(code, 32)
        wide = instruction.modifiers[0] == "wide"
        slots = [self.slot(s, 2 * bits if wide and n == 2 else bits) for n, s in enumerate(sources)]
        # A register wider than the type gives its low bits; a predicate and a shift count have types of their own.
        cut = [
            (1 << (2 * bits if wide and n == 2 else bits)) - 1
            if isinstance(s, Register) and s.name in self.kernel.registers and self.width(s.name) > bits
            and (instruction.opcode, n) not in (("selp", 2), ("shl", 1), ("shr", 1)) else -1
            for n, s in enumerate(sources)
        ]  # fmt: skip
        function = function_of(instruction)
        assert isinstance(first, Register)
        out = self.slot(first)
        full = (1 << self.width(first.name)) - 1
        narrow = bits if instruction.opcode != "cvt" else BITS.get(instruction.modifiers[-2], 32)
        extend = narrow < self.width(first.name) and instruction.opcode == "cvt" and instruction.modifiers[-2][0] == "s"

        def step(thread: Thread) -> None:
            slots_ = thread.slots
            value = function(*[slots_[s] & c for s, c in zip(slots, cut, strict=True)])
            slots_[out] = signed(value & (1 << narrow) - 1, narrow) & full if extend else value

        def pair(thread: Thread) -> None:
            step(thread)
            if second is not None:
                thread.slots[self.names[second.name]] = 1 - thread.slots[out]

        if second is not None:
            return pair
        if all(c == -1 for c in cut) and not extend:
            if len(slots) == 1:
                (a,) = slots

                def one(thread: Thread) -> None:
                    thread.slots[out] = function(thread.slots[a])

                return one
            if len(slots) == 2:
                a, b = slots

                def two(thread: Thread) -> None:
                    thread.slots[out] = function(thread.slots[a], thread.slots[b])

                return two
            if len(slots) == 3:
                a, b, c = slots

                def three(thread: Thread) -> None:
                    thread.slots[out] = function(thread.slots[a], thread.slots[b], thread.slots[c])

                return three
        return step

    def _pieces(self, instruction: Instruction) -> Step:
        target, source = instruction.operands
        bits = BITS[instruction.modifiers[-1]]
        if isinstance(source, Vector):
            part = bits // len(source.elements)
            slots = [self.slot(e, part) for e in source.elements]
            out = self.slot(target)

            def pack(thread: Thread) -> None:
                thread.slots[out] = sum(thread.slots[s] << part * n for n, s in enumerate(slots))

            return pack
        assert isinstance(target, Vector)
        part = bits // len(target.elements)
        outs = [None if e is None else self.slot(e) for e in target.elements]
        whole = self.slot(source, bits)

        def unpack(thread: Thread) -> None:
            value = thread.slots[whole]
            for n, out in enumerate(outs):
                if out is not None:
                    thread.slots[out] = value >> part * n & (1 << part) - 1

        return unpack

    def _generic(self, instruction: Instruction) -> Step:
        target, source = instruction.operands
        window = {"shared": SHARED, "local": LOCAL}.get(instruction.modifiers[-2], 0)
        shift = -window if "to" in instruction.modifiers else window
        out, given = self.slot(target), self.slot(source)

        def step(thread: Thread) -> None:
            thread.slots[out] = thread.slots[given] + shift & (1 << 64) - 1

        return step

    def _space(self, instruction: Instruction) -> str:
        spaces = ("global", "shared", "local", "param")
        return next((m for m in instruction.modifiers if m in spaces), "")

    def _move(self, instruction: Instruction) -> Step:
        code = instruction.modifiers[-1]
        size = BITS[code] // 8
        loads = instruction.opcode == "ld"
        data, address = instruction.operands if loads else instruction.operands[::-1]
        elements = data.elements if isinstance(data, Vector) else (data,)
        slots = [None if e is None else self.slot(e, 8 * size) for e in elements]
        # A load fills the whole register: with its sign for .s types, with zeros for others.
        widths = [8 * size if not isinstance(e, Register) else self.width(e.name) for e in elements]
        total = size * len(slots)
        space = self._space(instruction)
        if space == "param":
            assert isinstance(address, Address)
            assert isinstance(address.base, Symbol)
            constant = int.from_bytes(self.parameters[address.base.name][address.offset :][:size], "little")
            (out,) = slots
            assert out is not None

            def parameter(thread: Thread) -> None:
                thread.slots[out] = constant

            return parameter
        where = self.memory(space, address)

        def load(thread: Thread) -> None:
            memory, start = where(thread)
            assert _inside(memory, start, total), instruction.text
            for slot, width in zip(slots, widths, strict=True):
                if slot is not None:
                    value = int.from_bytes(memory[start : start + size], "little")
                    thread.slots[slot] = signed(value, 8 * size) & (1 << width) - 1 if code[0] == "s" else value
                start += size

        def store(thread: Thread) -> None:
            memory, start = where(thread)
            assert _inside(memory, start, total), instruction.text
            for n, slot in enumerate(slots):
                assert slot is not None
                value = thread.slots[slot] & (1 << 8 * size) - 1
                memory[start + n * size : start + (n + 1) * size] = value.to_bytes(size, "little")

        if loads and len(slots) == 1 and code[0] != "s":
            (only,) = slots
            assert only is not None

            def load_one(thread: Thread) -> None:
                memory, start = where(thread)
                assert 0 <= start <= len(memory) - size, instruction.text
                thread.slots[only] = int.from_bytes(memory[start : start + size], "little")

            return load_one
        return load if loads else store

    def _atomic(self, instruction: Instruction) -> Step:
        code = instruction.modifiers[-1]
        name = next(m for m in instruction.modifiers if m in ATOMICS)
        size = BITS[code] // 8
        mask = (1 << 8 * size) - 1
        operands = list(instruction.operands)
        out = self.slot(operands.pop(0)) if instruction.opcode == "atom" else None
        where = self.memory(self._space(instruction), operands[0])
        slots = [self.slot(o, 8 * size) for o in operands[1:]]

        def step(thread: Thread) -> None:
            memory, start = where(thread)
            assert _inside(memory, start, size), instruction.text
            old = int.from_bytes(memory[start : start + size], "little")
            given = [thread.slots[s] for s in slots]
            if code == "f32":
                new = fma(old, ONE, given[0])
            elif code[0] == "s":
                new = ATOMICS[name](signed(old, 8 * size), *(signed(g, 8 * size) for g in given)) & mask
            else:
                new = ATOMICS[name](old, *given) & mask
            memory[start : start + size] = new.to_bytes(size, "little")
            if out is not None:
                thread.slots[out] = old

        return step

    def _copy(self, instruction: Instruction) -> Step:
        if "commit_group" in instruction.modifiers or not instruction.operands or len(instruction.operands) == 1:
            return lambda thread: None
        target, source, size = instruction.operands
        assert isinstance(size, Immediate)
        to, origin, count = self.memory("shared", target), self.memory("global", source), size.value

        def step(thread: Thread) -> None:
            memory, start = origin(thread)
            shared, at = to(thread)
            shared[at : at + count] = memory[start : start + count]

        return step

    # -- the launch --

    def run(self) -> None:
        """All blocks, one after the other."""
        for block in range(self.grid.blocks):
            self._block(block)

    def _block(self, block: int) -> None:
        shared = bytearray(b"\xff" * self.sizes["shared"])
        threads = []
        for index in range(self.grid.threads):
            slots = list(self.initial)
            for place, name in self.special:
                slots[place] = self._special(name, index, block)
            threads.append(Thread(slots, shared, bytearray(b"\xff" * self.sizes["local"]), index % WARP))
        warps = [threads[n : n + WARP] for n in range(0, len(threads), WARP)]
        while any(t.at is not None for t in threads):
            for warp in warps:
                while self._advance(warp):
                    pass
            living = [t for t in threads if t.at is not None]
            assert len({t.at for t in living}) <= 1, "threads wait at different barriers"
            for thread in living:
                assert thread.at is not None
                thread.at = self._following(thread.at)

    def _special(self, name: str, thread: int, block: int) -> int:
        shape, number = {"%tid": (self.grid.block, thread), "%ctaid": (self.grid.grid, block)}.get(
            name[:-2], (self.grid.block, 0)
        )
        x, y, _ = shape
        axis = "xyz".index(name[-1]) if "." in name else 0
        place = (number % x, number // x % y, number // (x * y))[axis]
        if name == "%laneid":
            return thread % WARP
        return {"%tid": place, "%ctaid": place, "%ntid": self.grid.block[axis], "%nctaid": self.grid.grid[axis]}[
            name[:-2]
        ]

    def _following(self, at: int) -> int | None:
        return at + 1 if at + 1 < len(self.code) else None

    def _advance(self, warp: list[Thread]) -> bool:
        """Run every thread to its next barrier or warp instruction; execute a warp instruction. False if all threads
        of the warp wait at a barrier or have ended."""
        code, end = self.code, len(self.code)
        for thread in warp:
            at = thread.at
            if at is None:
                continue
            for _ in range(STEPS):
                step = code[at]
                if step is None:
                    break
                goto = step(thread)
                at = at + 1 if goto is None else goto
                if at < 0 or at >= end:
                    break
            else:
                raise AssertionError("endless")
            thread.at = at if 0 <= at < end else None
        living = [t for t in warp if t.at is not None]
        places = {t.at for t in living if t.at is not None}
        if not places:
            return False
        assert len(places) == 1, "threads of a warp meet at different instructions"
        instruction = self.kernel.instructions[next(iter(places))]
        if instruction.opcode == "bar":
            return False
        self._meet(instruction, living)
        for thread in living:
            assert thread.at is not None
            thread.at = self._following(thread.at)
        return True

    def _meeting(self, instruction: Instruction) -> tuple[list[int | None], list[int]]:
        """Slots of the results and of the sources of an instruction at which threads meet."""
        target, *sources = instruction.operands if instruction.opcode != "bar" else (None,)
        pair = (target.first, target.second) if isinstance(target, PredicatePair) else (target,)
        return [None if t is None else self.slot(t) for t in pair], [self.slot(s, 32) for s in sources]

    def _meet(self, instruction: Instruction, threads: list[Thread]) -> None:
        """A warp instruction, executed by all living threads of the warp together."""
        outs, sources = self.meetings[instruction.index]
        by_lane = {t.lane: [t.slots[s] for s in sources] for t in threads}
        for thread in threads:
            for out, result in zip(outs, _exchanged(instruction, thread.lane, by_lane), strict=False):
                if out is not None:
                    thread.slots[out] = result


def _exchanged(instruction: Instruction, lane: int, by_lane: dict[int, list[int]]) -> tuple[int, int]:
    """The result for one lane: the value, and the predicate of a shuffle (whether its source lane is in range)."""
    mode = next((m for m in instruction.modifiers if m != "sync"), "")
    if instruction.opcode == "activemask":
        return sum(1 << n for n in by_lane), 0
    if instruction.opcode == "vote":
        yes = sum(1 << n for n, values in by_lane.items() if values[0])
        return {"ballot": yes, "any": int(yes != 0), "all": int(yes == sum(1 << n for n in by_lane))}[mode], 0
    _, b, c, _ = by_lane[lane]
    segment, clamp = c >> 8 & 31, c & 31
    high = lane & segment | clamp & ~segment & 31
    source = {"up": lane - (b & 31), "down": lane + (b & 31), "bfly": lane ^ b & 31,
              "idx": lane & segment | b & 31 & ~segment}[mode]  # fmt: skip
    valid = source >= high if mode == "up" else source <= high
    if valid and source not in by_lane:
        raise Undefined(instruction.text)
    return by_lane[source if valid else lane][0], int(valid)


ATOMICS: dict[str, Callable[..., int]] = {
    "add": lambda old, new: old + new, "min": min, "max": max, "and": lambda old, new: old & new,
    "or": lambda old, new: old | new, "xor": lambda old, new: old ^ new, "exch": lambda old, new: new,
    "cas": lambda old, compare, new: new if old == compare else old,
    "inc": lambda old, limit: 0 if old >= limit else old + 1,
    "dec": lambda old, limit: limit if old == 0 or old > limit else old - 1,
}  # fmt: skip
