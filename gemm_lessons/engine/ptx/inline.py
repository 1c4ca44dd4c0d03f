"""Inlines calls of device functions that the compiler did not inline, on the PTX, before blocks are built.

A call passes values through ``.param`` variables. Each becomes a register: ``st.param [param0+0], %r1`` is a move into
it, the callee's ``ld.param`` a move out of it. A parameter that the two sides access in different pieces (a struct)
becomes local memory. ``static`` variables of a function are shared by all its calls; local ones are separate per call.
A function that calls itself is not inlined (``recursion.py``). Calls of ``RUNTIME`` functions (``printf``,
``assert``, ``malloc``, ``free``) remain, and ``decode.py`` binds them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.operand_check import check
from gemm_lessons.engine.ptx.records import (
    SIZES,
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    PredicatePair,
    Register,
    Symbol,
    Variable,
    Vector,
    elements_of,
    places_before,
    register_width,
)
from gemm_lessons.engine.ptx.recursion import (
    BYTES,
    NUMBER,
    PREDICATE,
    STACK,
    TOP,
    SharedBody,
    is_word,
    names_array,
    recursive,
)
from gemm_lessons.engine.records.errors import UnsupportedKernel

RUNTIME = frozenset({"vprintf", "__assertfail", "malloc", "free"})
DEPTH = 32  # nested calls
LONGEST = 200_000  # instructions


def inline_calls(kernel: Kernel, functions: Mapping[str, Kernel]) -> Kernel:
    """Return the kernel without calls to ``functions``. Raise ``UnsupportedKernel`` for one that cannot be inlined."""
    if not any(i.opcode == "call" for i in kernel.instructions):
        return kernel
    builder = _Builder(functions, kernel, {})
    builder.build(kernel)
    if in_memory := builder.accessed_in_different_pieces():
        builder = _Builder(functions, kernel, in_memory)
        builder.build(kernel)
    return dataclasses.replace(
        kernel,
        instructions=tuple([i.numbered(n) for n, i in enumerate(builder.instructions)]),
        labels=builder.labels,
        registers=builder.registers,
        variables=tuple(builder.variables),
        branch_targets=builder.branch_targets,
    )


@dataclasses.dataclass(frozen=True)
class _Frame:
    """One inlined body. Its own names get ``prefix``; ``passed`` maps its parameters to the caller's variables."""

    prefix: str
    own: frozenset[str]
    passed: Mapping[str, str]
    static_names: Mapping[str, str] = dataclasses.field(default_factory=dict)  # static variables, shared by all calls
    shared: SharedBody | None = None  # the recursive function whose body this is
    around: SharedBody | None = None  # the same, or the one whose body contains this frame

    def rename(self, name: str) -> str:
        if name in self.static_names:
            return self.static_names[name]
        return self.prefix + name if name in self.own else name

    def parameter(self, name: str) -> str:
        """Return the caller's variable for a formal parameter, or a variable of this body's own calls."""
        return self.passed.get(name, f"{self.prefix}{name}")


def _own_names(kernel: Kernel) -> frozenset[str]:
    return frozenset((*kernel.registers, *kernel.labels, *kernel.branch_targets, *(v.name for v in kernel.variables)))


class _Builder:
    """The instructions built so far, with their declarations."""

    def __init__(self, functions: Mapping[str, Kernel], kernel: Kernel, in_memory: Mapping[str, int]) -> None:
        self.functions = functions
        self.in_memory = in_memory  # call parameters in local memory -> size in bytes
        self.recursive = recursive(kernel, functions)
        self.bodies: dict[str, SharedBody] = {}
        self.pieces: dict[str, set[tuple[int, int]]] = {}  # call parameter -> (offset, bytes) of its accesses
        self.static_names: dict[str, dict[str, str]] = {}  # function -> static variable -> name in the kernel
        self.registers = dict(kernel.registers)
        self.variables = list(kernel.variables)
        self.kernel_parameters = {p.name for p in kernel.parameters}
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.calls = 0
        self.checked: set[str] = set()
        for name, size in in_memory.items():
            self.variables.append(Variable(name, "local", 16, size))

    def accessed_in_different_pieces(self) -> dict[str, int]:
        """Return call parameters that are written and read in different pieces, their sizes rounded up to 8 bytes."""
        result: dict[str, int] = {}
        for name, pieces in self.pieces.items():
            ordered = sorted(pieces)
            overlap = any(start + size > after for (start, size), (after, _) in itertools.pairwise(ordered))
            if overlap:
                result[name] = -(-max(start + size for start, size in ordered) // 8) * 8
        return result

    def build(self, kernel: Kernel) -> None:
        """Append the kernel, then the bodies of recursive functions."""
        if self.recursive:
            self.registers |= {TOP: "b64", NUMBER: "b32", PREDICATE: "pred"}
            self.variables.append(Variable(STACK, "local", 16, BYTES))
            self._emit(kernel.instructions[0], "mov.u64", Register(TOP), Symbol(STACK))
        self.body(kernel, _Frame("", _own_names(kernel), {}), 0)
        waiting = [*self.bodies.values()]
        done: set[str] = set()
        while waiting:
            shared = waiting.pop()
            if shared.prefix in done:
                continue
            done.add(shared.prefix)
            function = shared.function
            self.labels[shared.start] = len(self.instructions)
            own = _own_names(function)
            self.body(function, _Frame(shared.prefix, own, {}, self._static_variables(function), shared, shared), 1)
            self._emit(function.instructions[-1], "brx.idx", shared.number, Symbol(shared.table))
            waiting += self.bodies.values()
        for shared in self.bodies.values():
            self.branch_targets[shared.table] = tuple(shared.calls)

    def body(self, kernel: Kernel, frame: _Frame, depth: int) -> None:
        end = f"{frame.prefix}$end"
        positions: dict[int, list[str]] = {}
        for label, position in kernel.labels.items():
            positions.setdefault(position, []).append(frame.rename(label))
        for name, labels in kernel.branch_targets.items():
            self.branch_targets[frame.rename(name)] = tuple(frame.rename(label) for label in labels)
        for instruction in kernel.instructions:
            self._label(positions, instruction.index)
            if instruction.opcode == "call":
                self.call(instruction, frame, depth)
            elif instruction.opcode == "ret" and depth:
                self.append(instruction, frame, opcode="bra", modifiers=(), operands=(Symbol(end),))
            elif (address := self._call_parameter(instruction, frame)) is not None:
                self.moves(instruction, frame, address)
            elif (place := names_array(instruction, frame.shared)) is not None:
                target = _renamed(instruction.operands[0], frame)
                self.append(instruction, frame, opcode="add", modifiers=("u64",),
                            operands=(target, Register(TOP), Immediate(place)))  # fmt: skip
            else:
                self.append(instruction, frame)
        self._label(positions, len(kernel.instructions))
        if depth:
            self.labels[end] = len(self.instructions)

    def _label(self, positions: Mapping[int, list[str]], position: int) -> None:
        for label in positions.get(position, ()):
            self.labels[label] = len(self.instructions)

    def _call_parameter(self, instruction: Instruction, frame: _Frame) -> Address | None:
        """Return the address of an access to a ``.param`` variable, unless it is a parameter of the kernel itself. A
        function cannot access those; its own parameters may have the same names."""
        if instruction.opcode not in ("ld", "st") or "param" not in instruction.modifiers:
            return None
        address = instruction.operands[1 if instruction.opcode == "ld" else 0]
        if isinstance(address, Address) and isinstance(address.base, Symbol):
            return None if not frame.prefix and address.base.name in self.kernel_parameters else address
        return None

    def call(self, instruction: Instruction, frame: _Frame, depth: int) -> None:
        returned, target, given = _call_parts(instruction)
        if target in RUNTIME:
            values = tuple(Register(self.slot(frame.parameter(name), 0, "u64")) for name in given)
            kind = "u64" if target == "malloc" else "u32"
            results = tuple(Register(self.slot(frame.parameter(name), 0, kind)) for name in returned)
            self.append(instruction, frame, operands=(Symbol(target), *values, *results))
            return
        function = self.functions.get(target)
        if function is None:
            text = f"call of {plain_name(target)}: its code is not there"
            raise UnsupportedKernel(text, line_of(instruction), _places(instruction))
        if depth >= DEPTH or len(self.instructions) > LONGEST:
            name = plain_name(target)
            raise UnsupportedKernel(f"call of {name}: too many calls", line_of(instruction), _places(instruction))
        if function.name not in self.checked:
            self.checked.add(check(function).name)
        if len(function.parameters) != len(returned) + len(given):
            raise UnsupportedKernel(f"wrong number of operands: {instruction.text}", line_of(instruction))
        self.calls += 1
        if target in self.recursive:
            self._call_shared(instruction, frame, function, returned, given)
            return
        prefix = f"{function.name}.{self.calls}."
        formal = [p.name for p in function.parameters]
        passed = {inner: frame.parameter(outer) for inner, outer in zip(formal, (*returned, *given), strict=True)}
        self.registers.update({prefix + name: kind for name, kind in function.registers.items()})
        self.variables.extend(
            dataclasses.replace(v, name=prefix + v.name) for v in function.variables if v.space == "local"
        )
        for name in returned:
            self._clear(instruction, frame.parameter(name))
        statics = self._static_variables(function)
        inner_frame = _Frame(prefix, _own_names(function), passed, statics, around=frame.around)
        self.body(function, inner_frame, depth + 1)

    def _call_shared(
        self, call: Instruction, frame: _Frame, function: Kernel, returned: Sequence[str], given: Sequence[str]
    ) -> None:
        """Append a call of a recursive function: see ``recursion.py``."""
        if any(not is_word(p) for p in function.parameters) or call.guard is not None:
            why = "a struct is passed to a function that calls itself"
            raise UnsupportedKernel(f"call of {plain_name(function.name)}: {why}", line_of(call), _places(call))
        if function.name not in self.bodies:
            made = SharedBody(function, f"{function.name}.0.")
            self.bodies[function.name] = made
            self.registers.update({made.prefix + name: kind for name, kind in function.registers.items()})
            self.registers[made.number.name] = "b32"
        shared = self.bodies[function.name]
        caller, around = frame.shared, frame.around
        slots = [
            (
                Register(self.slot(frame.parameter(name), 0, p.type)),
                Register(self.slot(shared.prefix + p.name, 0, p.type)),
                p,
            )
            for name, p in zip((*returned, *given), function.parameters, strict=True)
        ]
        results, arguments = slots[: len(returned)], slots[len(returned) :]
        for opcode, operands in caller.saved(call) if caller else ():
            self._emit(call, opcode, *operands)
        grown = around.bytes if around else 0
        if grown:
            self._emit(call, "add.u64", Register(TOP), Register(TOP), Immediate(grown))
        limit = Register(f"{STACK}@limit")
        self.registers[limit.name] = "b64"
        fits = f"{shared.prefix}$fits{self.calls}"
        self._emit(call, "mov.u64", limit, Symbol(STACK, BYTES - shared.bytes))
        self._emit(call, "setp.le.u64", Register(PREDICATE), Register(TOP), limit)
        self._emit(call, "bra", Symbol(fits), guard=Register(PREDICATE))
        self._emit(call, "trap.stack")
        self.labels[fits] = len(self.instructions)
        for slot, formal, p in arguments:
            self._emit(call, f"mov.{_move_type(p.type)}", formal, slot)
        self._emit(call, "mov.u32", shared.number, Immediate(len(shared.calls)))
        self._emit(call, "bra", Symbol(shared.start))
        shared.calls.append(f"{shared.prefix}$after{self.calls}")
        self.labels[shared.calls[-1]] = len(self.instructions)
        for slot, formal, p in results:
            self._emit(call, f"mov.{_move_type(p.type)}", slot, formal)
        if grown:
            self._emit(call, "sub.u64", Register(TOP), Register(TOP), Immediate(grown))
        for opcode, operands in caller.restored(call) if caller else ():
            self._emit(call, opcode, *operands)

    def _emit(self, origin: Instruction, opcode: str, *operands: Operand, guard: Register | None = None) -> None:
        """Append an instruction at the line of another one."""
        name, *modifiers = opcode.split(".")
        made = dataclasses.replace(
            origin, opcode=name, modifiers=tuple(modifiers), operands=operands, guard=guard, guard_negated=False
        )
        self.instructions.append(made)

    def _static_variables(self, function: Kernel) -> Mapping[str, str]:
        """Return a function's static variables, declared at its first call; two functions' of one name are renamed."""
        known = self.static_names.get(function.name)
        if known is None:
            taken = {v.name for v in self.variables}
            known = self.static_names[function.name] = {}
            for variable in function.variables:
                if variable.space != "local":
                    unique = f"{function.name}.{variable.name}" if variable.name in taken else variable.name
                    known[variable.name] = unique
                    self.variables.append(dataclasses.replace(variable, name=unique))
        return known

    def _clear(self, instruction: Instruction, name: str) -> None:
        """Zero a call parameter in local memory, because unwritten padding may be copied."""
        for offset in range(0, self.in_memory.get(name, 0), 8):
            address = Address(Symbol(name), offset)
            self.instructions.append(
                dataclasses.replace(
                    instruction, opcode="st", modifiers=("local", "b64"), operands=(address, Immediate(0)), guard=None
                )
            )

    def moves(self, instruction: Instruction, frame: _Frame, address: Address) -> None:
        """Append an access to a call parameter as moves from or to its registers."""
        assert isinstance(address.base, Symbol)
        name = frame.parameter(address.base.name)
        offset = address.base.offset + address.offset
        kind = instruction.modifiers[-1]
        loads = instruction.opcode == "ld"
        value = instruction.operands[0 if loads else 1]
        parts = elements_of(value)
        first = name not in self.pieces
        self.pieces.setdefault(name, set()).update((offset + n * SIZES[kind], SIZES[kind]) for n in range(len(parts)))
        if name in self.in_memory:
            if first and not loads:
                self._clear(instruction, name)
            modifiers = tuple("local" if m == "param" else m for m in instruction.modifiers)
            where, moved = Address(Symbol(name), offset), _renamed(value, frame)
            operands = (moved, where) if loads else (where, moved)
            self.append(instruction, frame, modifiers=modifiers, operands=operands)
            return
        for number, part in enumerate(parts):
            slot = Register(self.slot(name, offset + number * SIZES[kind], kind))
            if part is None:
                continue
            other = _renamed(part, frame)
            if not loads:
                self.append(instruction, frame, opcode="mov", modifiers=(_move_type(kind),), operands=(slot, other))
                continue
            opcode, modifiers = self._load_form(other, kind)
            self.append(instruction, frame, opcode=opcode, modifiers=modifiers, operands=(other, slot))

    def _load_form(self, target: Operand, kind: str) -> tuple[str, tuple[str, ...]]:
        """Return a move, or a conversion if the register is wider than the loaded type."""
        width = self.registers.get(target.name, "") if isinstance(target, Register) else ""
        bits = register_width(width) if width else 0
        if not isinstance(bits, int) or bits <= SIZES[kind] * 8:
            return "mov", (_move_type(kind),)
        sign = "s" if kind[0] == "s" else "u"
        return "cvt", (f"{sign}{bits}", f"{sign}{SIZES[kind] * 8}")

    def slot(self, name: str, offset: int, kind: str) -> str:
        """Return the register for the bytes at ``offset`` of a ``.param`` variable."""
        register = f"{name}+{offset}"
        self.registers.setdefault(register, _move_type(kind))
        return register

    def append(
        self,
        instruction: Instruction,
        frame: _Frame,
        *,
        opcode: str | None = None,
        modifiers: tuple[str, ...] | None = None,
        operands: tuple[Operand, ...] | None = None,
    ) -> None:
        """Copy an instruction into the frame. ``operands``, if given, are already renamed."""
        renamed = tuple(_renamed(o, frame) for o in instruction.operands) if operands is None else operands
        self.instructions.append(
            Instruction(
                instruction.index,
                instruction.opcode if opcode is None else opcode,
                instruction.modifiers if modifiers is None else modifiers,
                renamed,
                Register(frame.rename(instruction.guard.name)) if instruction.guard else None,
                instruction.guard_negated,
                instruction.source,
                instruction.text,
            )
        )


def _move_type(kind: str) -> str:
    return f"b{max(16, SIZES[kind] * 8)}"


def _call_parts(instruction: Instruction) -> tuple[list[str], str, list[str]]:
    """Return the returned parameters, the function name and the passed parameters of ``call (r), f, (a, b)``."""
    groups: list[list[str]] = []
    target = ""
    for operand in instruction.operands:
        if isinstance(operand, Vector):
            groups.append([e.name for e in operand.elements if isinstance(e, Symbol)])
        elif isinstance(operand, Symbol) and not target:
            target = operand.name
            groups.append([])
    if not target or any(isinstance(operand, Register) for operand in instruction.operands):
        raise UnsupportedKernel(
            "a call through a pointer is not supported: of a function pointer or a virtual function",
            line_of(instruction),
            _places(instruction),
        )
    position = next(n for n, o in enumerate(instruction.operands) if isinstance(o, Symbol))
    before = groups[0] if position == 1 else []
    after = groups[-1] if len(instruction.operands) > position + 1 else []
    return before, target, after


def _places(instruction: Instruction) -> Sequence[tuple[str, int]]:
    return places_before((instruction,))


def _renamed(operand: Operand, frame: _Frame) -> Operand:
    if isinstance(operand, Register):
        return Register(frame.rename(operand.name))
    if isinstance(operand, Symbol):
        return Symbol(frame.rename(operand.name), operand.offset)
    if isinstance(operand, Address) and operand.base is not None:
        base = _renamed(operand.base, frame)
        assert isinstance(base, (Register, Symbol))
        return Address(base, operand.offset)
    if isinstance(operand, Vector):
        return Vector(tuple(None if e is None else _renamed(e, frame) for e in operand.elements))
    if isinstance(operand, PredicatePair):
        first = Register(frame.rename(operand.first.name)) if operand.first else None
        second = Register(frame.rename(operand.second.name)) if operand.second else None
        return PredicatePair(first, second, operand.negated)
    return operand
