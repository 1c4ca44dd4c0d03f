"""Random PTX programs: a function of their seed, written to reach every optimisation of the machine.

Registers are written again and again, by instructions and inside loops, as inline assembly may and NVRTC never does.
Three sorts:

    values   no races by construction: every thread writes its own bytes, others read them after a barrier, and bytes
             that all update are updated by atomics whose order does not matter
    racy     shared memory without that discipline: results in the machine's order and findings are compared
    fault    one thread leaves its memory or misaligns an address: the fault is compared

For each address register the writer tracks which bytes may be accessed through it (``Reach``). A write that may change
them ends that, so every access stays inside the bytes that it may touch.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import Literal

OWN = 64  # bytes of global and of local memory that belong to one thread, to work on
RESULTS = 112  # bytes of global memory per thread for its registers at the end
SLOT = 32  # bytes of shared memory that belong to one thread
INPUT = 256  # bytes of the input, which all threads read
COUNTS = 64  # bytes that all threads update by atomics, in global memory and in shared memory
SIZES = {"r": 4, "f": 4, "d": 8, "l": 8, "h": 2}
COUNT = {"r": 10, "f": 24, "d": 3, "l": 4, "h": 4, "p": 4}
DECLARED = {"r": "b32", "f": "f32", "d": "f64", "l": "b64", "h": "b16", "p": "pred"}
Sort = Literal["values", "racy", "fault"]

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.file 1 "random.cu"
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2, .param .u32 k_3, .param .f32 k_4, .param .u64 k_5)
{{
.reg .pred %p<4>;
.reg .b32 %r<10>;
.reg .f32 %f<24>;
.reg .f64 %d<3>;
.reg .b64 %l<4>;
.reg .b16 %h<4>;
.reg .b32 %a<5>;
.reg .b64 %A<6>;
.reg .b32 %c<3>;
.reg .b32 %n<3>;
.reg .b32 %u<8>;
.reg .b64 %U<8>;
.shared .align 16 .b8 mine[{shared}];
.shared .align 16 .b8 count[64];
.local .align 16 .b8 own[64];
"""


@dataclass(frozen=True)
class Case:
    """One program and its launch. ``body``: its lines, one instruction or label each."""

    seed: int
    sort: Sort
    body: tuple[str, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    block_limit: int | None

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def text(self) -> str:
        lines = [HEAD.format(shared=self.threads * SLOT)]
        for number, line in enumerate(self.body):
            lines.append(f".loc 1 {number + 1} 0\n{line}")
        return "\n".join([*lines, "}", ""])

    def buffers(self) -> list[bytes]:
        """Contents of the input, the threads' bytes and the counts before the launch."""
        chance = random.Random(self.seed + 1)
        words = b"".join(_word(chance) for _ in range(INPUT // 4))
        own = bytes(chance.getrandbits(8) for _ in range(97)) * (self.threads * self.blocks * (OWN + RESULTS) // 97 + 1)
        counts = b"".join(_word(chance) for _ in range(COUNTS // 4))
        return [words, own[: self.threads * self.blocks * (OWN + RESULTS)], counts]

    def scalars(self) -> list[bytes]:
        chance = random.Random(self.seed + 2)
        return [
            _word(chance),
            struct.pack("<f", chance.choice((0.5, -3.25, 1e-38, 7.0))),
            _word(chance) + _word(chance),
        ]


def _word(chance: random.Random) -> bytes:
    """Four bytes: a small integer, a float of some size, a special one, or anything."""
    kind = chance.random()
    if kind < 0.25:
        return struct.pack("<I", chance.randrange(40))
    if kind < 0.6:  # few bits: products of such end halfway between two float32 often enough
        return struct.pack(
            "<f", chance.choice((1, -1)) * chance.randrange(1, 1 << 12) * 2.0 ** chance.randrange(-14, 6)
        )
    if kind < 0.75:
        return struct.pack("<I", chance.choice((0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00001, 1, 0x807FFFFF,
                                                 0x00800000, 0x7F7FFFFF, 0x3F800000, 0x4B800001)))  # fmt: skip
    return struct.pack("<I", chance.getrandbits(32))


@dataclass(frozen=True)
class Reach:
    """Bytes that may be accessed through an address register: the state space of the instructions ("" = generic), the
    owner (``own``: this thread; ``all``: shared memory that others write between barriers; ``input``: read-only), and
    where they begin and end relative to the register, which is a multiple of 16."""

    space: str
    owner: str
    low: int
    high: int


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.seed = seed
        self.sort: Sort = chance.choices(("values", "racy", "fault"), (80, 15, 5))[0]
        self.lines: list[str] = []
        self.reach: dict[str, Reach] = {}
        self.kept: list[set[str]] = []  # registers that an iteration of the enclosing loops must leave unchanged
        self.loops = self.labels = 0
        self.reading = False  # until the next barrier all threads read shared memory; else its owners write it
        self.uniform = True  # all threads of the block that have not ended execute this code
        self.ended = False  # some threads may have ended
        self.counts = chance.random() < 0.4  # whether shared memory holds numbers that all threads update
        self._launch()

    def _launch(self) -> None:
        """Draw block and grid. Mostly few threads, which cost the scalar interpreter time, and few blocks, which cost
        the plain machine time. Partial warps, full warps, several warps."""
        chance = self.chance
        shape = chance.random()
        if shape < 0.5:  # whole warps: only then do all lanes of a batch take part
            self.block = chance.choice(((32, 1, 1), (32, 1, 1), (8, 4, 1), (4, 4, 2), (64, 1, 1)))
        elif shape < 0.8:
            self.block = chance.choice(((chance.randint(1, 12), 1, 1), (chance.randint(1, 4), 3, 1), (2, 2, 2)))
        else:
            self.block = chance.choice(((chance.randint(13, 70), 1, 1), (3, 2, 4), (6, 3, 3)))
        self.grid = chance.choice(((1, 1, 1), (1, 1, 1), (2, 1, 1), (2, 1, 1), (3, 1, 1), (1, 2, 1), (2, 1, 2)))
        if shape > 0.5 and chance.random() < 0.1:
            self.grid = (chance.randint(4, 6), 1, 1)
        self.threads = self.block[0] * self.block[1] * self.block[2]
        self.blocks = self.grid[0] * self.grid[1] * self.grid[2]

    def case(self) -> Case:
        limit = self.chance.choice((None, None, 1, 2, 3))
        self.prologue()
        size = self.chance.choice((3, 5, 8, 12))
        if self.sort == "racy":
            for name in ("%a0", "%a1", "%A0"):
                self.any_shared(name, name[1] == "A", False)
                self.access(name)
        if self.chance.random() < 0.3:
            self.walk()
        self.body(size, 2)
        if self.sort == "fault":
            self.fault()
        self.epilogue()
        return Case(self.seed, self.sort, tuple(self.lines), self.grid, self.block, limit)

    # -- pieces --

    def emit(self, text: str) -> None:
        self.lines.append(text + ("" if text.endswith(":") else ";"))

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def any(self, kind: str) -> str:
        """A data register to read."""
        return f"%{kind}{self.chance.randrange(COUNT[kind])}"

    def value(self, kind: str) -> str:
        """A data register or a constant."""
        if kind in "rlh" and self.chance.random() < 0.2:
            return str(self.chance.choice((0, 1, 3, 7, 31, 255, -1, -5, 0x55AA)))
        if kind == "f" and self.chance.random() < 0.1:
            return "0f" + struct.pack(">f", self.chance.choice((0.0, 1.0, -2.5, 1e-30))).hex().upper()
        return self.any(kind)

    def guard(self, share: float = 0.2) -> str:
        if self.chance.random() < share:
            return f"@{self.chance.choice(('', '!'))}%p{self.chance.randrange(4)} "
        return ""

    def prologue(self) -> None:
        e = self.emit
        x, y, _ = self.block
        e("ld.param.u64 %U0, [k_0]")
        e("ld.param.u64 %U1, [k_1]")
        e("ld.param.u64 %U2, [k_2]")
        e("ld.param.u32 %u7, [k_3]")
        for n in range(3):
            e(f"cvta.to.global.u64 %U{n}, %U{n}")
        e("mov.u32 %u0, %tid.x")
        if y * self.block[2] > 1:
            e("mov.u32 %u1, %tid.y")
            e("mov.u32 %u2, %tid.z")
            e(f"mad.lo.u32 %u1, %u2, {y}, %u1")
            e(f"mad.lo.u32 %u0, %u1, {x}, %u0")
        e("mov.u32 %u1, %ctaid.x")
        if self.grid[1] * self.grid[2] > 1:
            e("mov.u32 %u2, %ctaid.y")
            e("mov.u32 %u3, %nctaid.x")
            e("mad.lo.u32 %u1, %u2, %u3, %u1")
            if self.grid[2] > 1:
                e("mov.u32 %u2, %ctaid.z")
                e(f"mad.lo.u32 %u1, %u2, {self.grid[0] * self.grid[1]}, %u1")
        e(f"mad.lo.u32 %u1, %u1, {self.threads}, %u0")  # %u0: thread of the block, %u1: thread of the grid
        e(f"mul.wide.u32 %U3, %u1, {OWN + RESULTS}")
        e("add.s64 %U1, %U1, %U3")  # %U1: this thread's global bytes
        e("mov.u32 %u2, mine")
        e(f"mad.lo.u32 %u2, %u0, {SLOT}, %u2")  # %u2, %U4: its shared bytes
        e("cvt.u64.u32 %U4, %u2")
        e("cvta.shared.u64 %U5, %U4")  # the same, generic
        e("mov.u64 %U6, own")
        e("cvta.local.u64 %U7, %U6")
        e("setp.eq.u32 %p0, %u0, 0")
        e("mov.u32 %u3, count")
        e("mov.u32 %u4, 0")
        if self.counts:
            for n in range(0, COUNTS, 16):
                e(f"@%p0 st.shared.v4.u32 [%u3+{n}], {{%u4, %u4, %u4, %u4}}")
            e("bar.sync 0")
        # Initial values of registers. In some programs some stay unset: that is a finding, and all their bits are 1.
        spare = self.chance.random() < 0.1
        e("mov.b32 %r0, %u1")
        e("mov.b32 %r1, %u0")
        e("mov.b32 %r2, %u7")
        e("and.b32 %u4, %u1, 15")
        e("mul.wide.u32 %U3, %u4, 16")
        e("add.s64 %U3, %U0, %U3")
        if not spare:
            e("ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%U3]")
            e("ld.global.v2.u32 {%r7, %r8}, [%U0+8]")
            e("mov.u32 %r9, 77")
        for n in range(0, 24, 4):
            registers = ", ".join(f"%f{n + k}" for k in range(4))
            base, offset = (("%U3", 0), ("%U0", n * 4))[n % 8 == 4]
            if not (spare and n > 12):
                e(f"ld.global.v4.f32 {{{registers}}}, [{base}+{offset}]")
        e("ld.param.f32 %f3, [k_4]")
        e("ld.param.u64 %l0, [k_5]")
        e("mov.u64 %l1, %U4")
        e("mul.wide.s32 %l2, %r3, %r4")
        e("cvt.s64.s32 %l3, %r7")
        e("cvt.f64.f32 %d0, %f4")
        e("cvt.rn.f64.s32 %d1, %r1")
        e("cvt.f64.f32 %d2, %f9")
        e("ld.global.u16 %h0, [%U3+2]")
        for n in range(1, 4):
            e(f"cvt.u16.u32 %h{n}, %r{n}")
        e("setp.lt.u32 %p0, %r4, %r8")
        e("setp.gt.f32 %p1, %f5, %f8")
        e("setp.ne.s32 %p2, %r1, 3")
        e("setp.lt.u32 %p3, %r1, 7")

    def epilogue(self) -> None:
        """Store registers to the thread's results in global memory."""
        e, chance = self.emit, self.chance
        place = OWN
        for n in chance.sample(range(0, 24, 4), 3):
            e(f"st.global.v4.f32 [%U1+{place}], {{%f{n}, %f{n + 1}, %f{n + 2}, %f{n + 3}}}")
            place += 16
        for names in (("r0", "r1", "r2", "r3"), ("r4", "r5", "r6", "r7")):
            e(f"st.global.v4.u32 [%U1+{place}], {{{', '.join('%' + n for n in names)}}}")
            place += 16
        e(f"st.global.v2.f64 [%U1+{place}], {{%d{chance.randrange(3)}, %d{chance.randrange(3)}}}")
        e(f"st.global.v2.u64 [%U1+{place + 16}], {{%l{chance.randrange(4)}, %l{chance.randrange(4)}}}")

    # -- control --

    def body(self, size: int, depth: int) -> None:
        for _ in range(size):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        choices = [
            (self.arithmetic, 14), (self.predicate, 5), (self.access, 7), (self.address, 5), (self.moves, 4),
            (self.multiply_adds, 3), (self.loads, 5), (self.convert, 4), (self.pieces, 1), (self.atomic, 2),
            (self.walk, 3),
        ]  # fmt: skip
        if depth:
            choices += [(lambda: self.branch(depth), 3), (lambda: self.loop(depth), 3)]
        if self.uniform:
            choices += [(self.barrier, 4), (self.exchange, 2), (self.copy, 1)]
        if self.kept or self.chance.random() < 0.3:
            choices.append((self.leave, 1))
        actions, weights = zip(*choices, strict=True)
        self.chance.choices(actions, weights)[0]()

    def branch(self, depth: int) -> None:
        otherwise, end = self.label(), self.label()
        negated, uniform, before = self.chance.random() < 0.5, self.uniform, dict(self.reach)
        self.emit(f"@{'!' if negated else ''}%p{self.chance.randrange(4)} bra {otherwise}")
        self.uniform = False
        self.body(self.chance.randint(1, 4), depth - 1)
        after = self.reach
        if self.chance.random() < 0.5:
            self.emit(f"bra.uni {end}")
            self.emit(f"{otherwise}:")
            self.reach = dict(before)
            self.body(self.chance.randint(1, 4), depth - 1)
            self.emit(f"{end}:")
            before = self.reach
        else:
            self.emit(f"{otherwise}:")
        self.reach = {name: reach for name, reach in after.items() if before.get(name) == reach}
        self.uniform = uniform

    def loop(self, depth: int) -> None:
        """A counted loop, tested at the top or at the bottom, with a trip count that is uniform or differs by lane."""
        chance, e = self.chance, self.emit
        number = self.loops % 3
        if self.loops >= 4 or len(self.kept) > number:
            return
        self.loops += 1
        again, end = self.label(), self.label()
        uniform, reading = self.uniform, self.reading
        counter, bound, p = f"%c{number}", f"%n{number}", f"%p{chance.randrange(4)}"
        together = chance.random() < 0.4
        if together:
            e(f"mov.u32 {bound}, {chance.randint(1, 4)}")
        else:
            e(f"and.b32 {bound}, {self.any('r')}, 3")
        keep = {name for name in self.reach if chance.random() < 0.6}
        self.reach = {name: reach for name, reach in self.reach.items() if name in keep}
        self.kept.append(keep)
        top = chance.random() < 0.5
        e(f"mov.u32 {counter}, 0")
        e(f"{again}:")
        if top:
            e(f"setp.ge.u32 {p}, {counter}, {bound}")
            e(f"@{p} bra {end}")
        self.uniform = uniform and together
        self.body(chance.randint(2, 5), depth - 1)
        if not together and chance.random() < 0.3:
            q = chance.randrange(4)
            e(f"@%p{q} bra {end}")
        if self.uniform and self.reading != reading:
            self.barrier(reading)
        e(f"add.s32 {counter}, {counter}, 1")
        if top:
            e(f"bra.uni {again}")
        else:
            e(f"setp.lt.u32 {p}, {counter}, {bound}")
            e(f"@{p} bra {again}")
        e(f"{end}:")
        self.kept.pop()
        self.reach = {name: reach for name, reach in self.reach.items() if name in keep}
        self.uniform = uniform

    def walk(self) -> None:
        """A loop whose loads and stores follow a base register through the thread's own shared bytes."""
        chance, e = self.chance, self.emit
        if self.reading and self.sort == "values":
            return
        wide = chance.random() < 0.5
        name = f"%A{chance.randrange(6)}" if wide else f"%a{chance.randrange(5)}"
        if any(name in kept for kept in self.kept):
            return
        self.reach.pop(name, None)
        bits, step, again = 64 if wide else 32, chance.choice((4, 8)), self.label()
        e(f"mov.b{bits} {name}, {'%U4' if wide else '%u2'}")
        e(f"mov.u32 %u5, {chance.randint(2, 3) if chance.random() < 0.7 else '%u0'}")
        e("and.b32 %u5, %u5, 3")
        e(f"{again}:")
        moved = 0
        for _ in range(chance.randint(2, 5)):
            where = f"[{name}+{chance.choice((0, 4, 8)) - moved}]"
            choice = chance.random()
            if choice < 0.7:
                kind = chance.choice("ffr")
                e(f"ld.shared.{'f32' if kind == 'f' else 'u32'} {self.any(kind)}, {where}")
            elif choice < 0.9:
                e(f"st.shared.f32 {where}, {self.any('f')}")
            elif not moved:
                moved = step
                e(f"add.s{bits} {name}, {name}, {step}")
        if not moved:
            e(f"add.s{bits} {name}, {name}, {step}")
        p = f"%p{chance.randrange(4)}"
        e("sub.u32 %u5, %u5, 1")
        e(f"setp.gt.s32 {p}, %u5, 0")
        e(f"@{p} bra {again}")

    def leave(self) -> None:
        """Let some threads end here."""
        if self.chance.random() < 0.35:
            self.emit(f"setp.eq.u32 %p{self.chance.randrange(4)}, %u0, {self.chance.randrange(40)}")
            self.emit(f"@%p{self.chance.randrange(4)} {self.chance.choice(('ret', 'exit'))}")
            self.ended = True

    def barrier(self, reading: bool | None = None) -> None:
        self.emit("bar.sync 0")
        self.reading = self.chance.random() < 0.5 if reading is None else reading

    # -- data --

    def arithmetic(self) -> None:
        chance = self.chance
        kind = chance.choice("rrrrfffdlhp")
        g = self.guard()
        t = self.any(kind)
        v = lambda: self.value(kind)  # noqa: E731
        if kind == "p":
            name = chance.choice(("and.pred", "or.pred", "xor.pred"))
            self.emit(f"{g}{name} {t}, {self.any('p')}, {self.any('p')}")
        elif kind == "r":
            name = chance.choice(("add.s32", "add.u32", "sub.s32", "mul.lo.s32", "mul.hi.u32", "mul.hi.s32", "min.s32",
                                  "max.u32", "and.b32", "or.b32", "xor.b32", "mad.lo.s32", "mad.lo.u32", "shl.b32",
                                  "shr.u32", "shr.s32", "not.b32", "neg.s32", "abs.s32", "selp.b32", "popc.b32",
                                  "clz.b32", "bfe.u32", "div.u32", "rem.s32", "sad.u32", "prmt.b32"))  # fmt: skip
            operands = {"mad": 3, "not": 1, "neg": 1, "abs": 1, "popc": 1, "clz": 1, "bfe": 3, "sad": 3, "prmt": 3}
            count = operands.get(name.partition(".")[0], 2)
            tail = f", {self.any('p')}" if name.startswith("selp") else ""
            sources = [v() for _ in range(count)]
            if name.startswith(("div", "rem")):
                sources[1] = str(chance.randint(1, 9))
            self.emit(f"{g}{name} {t}, {', '.join(sources)}{tail}")
        elif kind == "l":
            name = chance.choice(("add.s64", "sub.u64", "mul.lo.s64", "xor.b64", "and.b64", "shl.b64", "shr.s64",
                                  "min.s64", "selp.b64", "mul.wide.s32", "mul.wide.u32", "mad.wide.s32",
                                  "mul.hi.u64"))  # fmt: skip
            if "wide" in name:
                addend = f", {self.any('l')}" if name[1] == "a" else ""
                self.emit(f"{g}{name} {t}, {self.any('r')}, {self.value('r')}{addend}")
            elif name.startswith("sh"):
                self.emit(f"{g}{name} {t}, {v()}, {self.value('r')}")
            else:
                tail = f", {self.any('p')}" if name.startswith("selp") else ""
                self.emit(f"{g}{name} {t}, {v()}, {v()}{tail}")
        elif kind == "h":
            name = chance.choice(("add.s16", "mul.lo.u16", "xor.b16", "shr.u16", "max.s16", "add.f16", "mul.f16"))
            second = self.value("r") if name.startswith("shr") else self.any("h")
            self.emit(f"{g}{name} {t}, {self.any('h')}, {second}")
        elif kind == "f":
            name = chance.choice(("add.f32", "sub.f32", "mul.f32", "fma.rn.f32", "min.f32", "max.f32", "neg.f32",
                                  "abs.f32", "selp.f32", "fma.rn.f32", "add.rn.f32", "fma.rz.f32"))  # fmt: skip
            count = 3 if "fma" in name else 1 if name[:3] in ("neg", "abs") else 2
            tail = f", {self.any('p')}" if name.startswith("selp") else ""
            self.emit(f"{g}{name} {t}, {', '.join(v() for _ in range(count))}{tail}")
        else:
            name = chance.choice(("add.f64", "sub.f64", "mul.f64", "fma.rn.f64", "max.f64", "add.rz.f64", "mul.rm.f64",
                                  "fma.rp.f64", "selp.f64"))  # fmt: skip
            count = 3 if "fma" in name else 2
            tail = f", {self.any('p')}" if name.startswith("selp") else ""
            self.emit(f"{g}{name} {t}, {', '.join(v() for _ in range(count))}{tail}")

    def predicate(self) -> None:
        kind = self.chance.choice("rrrflh")
        code = {"r": ("s32", "u32"), "f": ("f32",), "l": ("s64", "u64"), "h": ("s16", "u16")}[kind]
        relations = ("lt", "le", "gt", "ge", "eq", "ne", *(("ltu", "geu", "nan", "num") if kind == "f" else ()))
        target = self.any("p")
        if self.chance.random() < 0.2:
            target += f"|%p{(int(target[2:]) + 1) % 4}"
        self.emit(
            f"{self.guard(0.1)}setp.{self.chance.choice(relations)}.{self.chance.choice(code)}"
            f" {target}, {self.any(kind)}, {self.value(kind)}"
        )

    def moves(self) -> None:
        """A run of moves that read each other's results, sometimes with other instructions among them."""
        kind = self.chance.choice("frrf")
        pool = [self.any(kind) for _ in range(self.chance.randint(2, 5))]
        code = {"r": ("b32", "u32", "s32"), "f": ("f32",)}[kind]
        for _ in range(self.chance.randint(2, 6)):
            self.emit(f"{self.guard(0.06)}mov.{self.chance.choice(code)} {self.chance.choice(pool)},"
                      f" {self.chance.choice(pool)}")  # fmt: skip
            if self.chance.random() < 0.08:
                self.arithmetic()

    def multiply_adds(self) -> None:
        """An outer product, or part of one, with moves, loads and dependent instructions thrown in."""
        chance = self.chance
        rows, columns = chance.randint(1, 4), chance.randint(1, 4)
        names = chance.sample(range(24), min(24, rows + columns + rows * columns))
        left, right, sums = names[:rows], names[rows : rows + columns], names[rows + columns :]
        pairs = [(i, j) for i in left for j in right]
        products = list(zip(pairs, sums, strict=False))
        if chance.random() < 0.4:
            chance.shuffle(products)
        for (i, j), s in products:
            i, j = (j, i) if chance.random() < 0.2 else (i, j)
            target, addend = s, s
            trouble = chance.random()
            if trouble < 0.04:
                target = chance.choice(names)  # what others read or write
            elif trouble < 0.08:
                addend = chance.choice(names)
            elif trouble < 0.12:
                self.emit(f"mov.f32 %f{chance.choice(names)}, %f{chance.choice(names)}")
            elif trouble < 0.16:
                self.access()
            elif trouble < 0.2:
                self.arithmetic()
            self.emit(f"{self.guard(0.03)}fma.rn.f32 %f{target}, %f{i}, %f{j}, %f{addend}")

    def convert(self) -> None:
        chance = self.chance
        integers = {"r": ("s32", "u32", "s8", "u8", "s16", "u16"), "l": ("s64", "u64"), "h": ("s16", "u16", "s8", "u8")}
        shape = chance.random()
        source, target = chance.choice("rlh"), chance.choice("rlh")
        if shape < 0.5:
            to, origin = chance.choice(integers[target]), chance.choice(integers[source])
            text = f"cvt.{to}.{origin} {self.any(target)}, {self.any(source)}"
        elif shape < 0.7:
            code = chance.choice(integers["r"][:2] if target == "r" else integers[target])
            kind, float_code = chance.choice((("f", "f32"), ("d", "f64")))
            mode = chance.choice(("rni", "rzi", "rmi", "rpi"))
            text = f"cvt.{mode}.{code}.{float_code} {self.any(target)}, {self.any(kind)}"
        elif shape < 0.85:
            code = chance.choice(integers[source])
            kind, float_code = chance.choice((("f", "f32"), ("d", "f64")))
            text = f"cvt.{chance.choice(('rn', 'rz'))}.{float_code}.{code} {self.any(kind)}, {self.any(source)}"
        else:
            text = chance.choice((
                f"cvt.f64.f32 {self.any('d')}, {self.any('f')}", f"cvt.rn.f32.f64 {self.any('f')}, {self.any('d')}",
                f"cvt.rn.f16.f32 {self.any('h')}, {self.any('f')}", f"cvt.f32.f16 {self.any('f')}, {self.any('h')}",
            ))  # fmt: skip
        self.emit(self.guard() + text)

    def pieces(self) -> None:
        pick = self.any
        self.emit(self.guard() + self.chance.choice((
            f"mov.b64 {pick('l')}, {{{pick('r')}, {pick('r')}}}", f"mov.b32 {pick('r')}, {{{pick('h')}, {pick('h')}}}",
            f"mov.b64 {{%r1, %r5}}, {pick('l')}", f"mov.b32 {{%h0, %h3}}, {pick('r')}",
            f"mov.b32 {pick('r')}, {pick('f')}", f"mov.b32 {pick('f')}, {pick('r')}",
            f"mov.b64 {pick('d')}, {pick('l')}",
        )))  # fmt: skip

    # -- addresses --

    def address(self) -> None:
        """Make an address register, or move one."""
        chance = self.chance
        if self.reach and chance.random() < 0.35:
            self.move_address()
            return
        form = chance.choice(("global", "input", "shared", "shared", "shared", "all", "all", "local", "mixed"))
        if form == "all" and not (self.reading or self.sort == "racy"):
            form = "shared"
        wide = form in ("global", "input", "local", "mixed") or chance.random() < 0.4
        name = f"%A{chance.randrange(6)}" if wide else f"%a{chance.randrange(5)}"
        generic = wide and chance.random() < 0.35
        if form == "mixed":  # lanes of one warp in different memories
            one, other = chance.choice(("%U5", "%U7")), chance.choice(("%U1", "%U5"))
            self.know(name, Reach("", "own", 0, SLOT), f"selp.b64 {name}, {one}, {other}, {self.any('p')}")
        elif form == "all":
            self.any_shared(name, wide, generic)
        else:
            base, size, owner, space = {
                "global": ("%U1", OWN, "own", "global"), "input": ("%U0", INPUT, "input", "global"),
                "local": ("%U6", OWN, "own", "local"), "shared": ("%U4" if wide else "%u2", SLOT, "own", "shared"),
            }[form]  # fmt: skip
            if generic:
                base, space = {"local": "%U7", "shared": "%U5"}.get(form, base), ""
            self.offset_from(name, base, Reach(space, owner, 0, size))

    def offset_from(self, name: str, base: str, reach: Reach) -> None:
        """Write ``name``: ``base`` plus a constant, or plus a multiple of 16 that differs by lane."""
        chance = self.chance
        wide = name[1] == "A"
        if chance.random() < 0.5:
            index = f"%c{(self.loops - 1) % 3}" if self.kept and chance.random() < 0.4 else self.any("r")
            first = f"and.b32 %u4, {index}, {reach.high // 16 - 1}"
            last = f"mad.lo.s32 {name}, %u4, 16, {base}"
            if wide:
                last = f"mad.wide.u32 {name}, %u4, 16, {base}"
            self.know(name, Reach(reach.space, reach.owner, 0, 16), first, last)
        else:
            shift = chance.choice((0, 0, 16, -16, 64, -1024))
            self.know(
                name, Reach(reach.space, reach.owner, -shift, reach.high - shift),
                f"add.s{64 if wide else 32} {name}, {base}, {shift}",
            )  # fmt: skip

    def any_shared(self, name: str, wide: bool, generic: bool) -> None:
        """Write ``name``: the start of the shared array, or of some thread's bytes in it."""
        convert = [f"cvta.shared.u64 {name}, {name}"] if generic else []
        space = "" if generic else "shared"
        if self.chance.random() < 0.4:
            reach = Reach(space, "all", 0, self.threads * SLOT)
            self.know(name, reach, f"mov.{'u64' if wide else 'u32'} {name}, mine", *convert)
            return
        self.know(
            name, Reach(space, "all", 0, SLOT),
            f"add.u32 %u4, {self.any('r')}, {self.chance.randrange(8)}",
            f"rem.u32 %u4, %u4, {self.threads}",
            "mov.u32 %u5, mine",
            f"mad.lo.u32 {'%u4' if wide else name}, %u4, {SLOT}, %u5",
            *([f"cvt.u64.u32 {name}, %u4"] if wide else []),
            *convert,
        )  # fmt: skip

    def know(self, name: str, reach: Reach, *lines: str) -> None:
        """Emit ``lines``, which write ``name``, and note its reach; emit nothing if an enclosing loop needs its old
        reach in the next iteration."""
        if any(name in kept for kept in self.kept) and self.reach.get(name) != reach:
            return
        for line in lines:
            self.emit(line)
        self.reach[name] = reach

    def move_address(self) -> None:
        """Add to an address register; its reach shrinks or moves with it."""
        chance = self.chance
        name = chance.choice(sorted(self.reach))
        reach = self.reach[name]
        bits = 64 if name[1] == "A" else 32
        shift = chance.choice((16, 32, -16))
        moved = Reach(reach.space, reach.owner, reach.low - shift, reach.high - shift)
        if any(name in kept for kept in self.kept):  # there and back again: the loop around finds it as it was
            self.emit(f"add.s{bits} {name}, {name}, {shift}")
            self.reach[name] = moved
            self.access(name)
            self.emit(f"sub.s{bits} {name}, {name}, {shift}")
            self.reach[name] = reach
        elif reach.high - reach.low >= 48 and chance.random() < 0.5:  # lane by lane
            step = f"mad.{'wide' if bits == 64 else 'lo'}.u32 {name}, %u4, 16, {name}"
            smaller = Reach(reach.space, reach.owner, reach.low, reach.high - 16)
            self.know(name, smaller, f"and.b32 %u4, {self.any('r')}, 1", self.guard(0.2) + step)
        else:
            self.know(name, moved, f"add.s{bits} {name}, {name}, {shift}")

    def usable(self, storing: bool) -> list[str]:
        def fits(reach: Reach) -> bool:
            if reach.owner == "input":
                return not storing
            if self.sort == "racy" or "shared" not in self.memory_of(reach):
                return True
            return not storing if self.reading else reach.owner == "own"

        return [name for name, reach in sorted(self.reach.items()) if reach.high - reach.low >= 16 and fits(reach)]

    @staticmethod
    def memory_of(reach: Reach) -> str:
        """The state space that is accessed; generic addresses count as shared, unless of the input."""
        return "shared" if reach.space == "" and reach.owner != "input" else reach.space

    def place(self, name: str, width: int) -> str:
        reach = self.reach[name]
        first = -(-reach.low // width)
        last = (reach.high - width) // width
        offset = self.chance.randint(first, last) * width if last > first else first * width
        # Few places, so that loads meet stores.
        if self.chance.random() < 0.4:
            offset = first * width
        return f"[{name}+{offset}]" if offset else f"[{name}]"

    def access(self, name: str = "") -> None:
        """A load or store through an address register."""
        chance = self.chance
        storing = chance.random() < 0.45
        names = [n for n in self.usable(storing) if not name or n == name]
        if not names:
            if not name:
                self.address()
            return
        name = chance.choice(names)
        space = self.reach[name].space
        dot = f".{space}" if space else ""
        code, kind = chance.choice((
            ("u8", "r"), ("s8", "r"), ("u8", "h"), ("s8", "h"), ("u16", "h"), ("s16", "r"), ("u16", "r"), ("b16", "h"),
            ("u32", "r"), ("b32", "r"), ("s32", "r"), ("f32", "f"), ("f32", "f"), ("f32", "f"), ("u64", "l"),
            ("f64", "d"), ("b64", "l"), ("s64", "l"), ("s32", "l"),
        ))  # fmt: skip
        width = int(code[1:]) // 8
        count = chance.choice((1, 1, 1, 2, 4)) if width in (4, 8) and SIZES[kind] == width else 1
        count = min(count, 16 // width)
        g = self.guard()
        if count == 1:
            data = self.any(kind)
        else:
            numbers = (
                chance.sample(range(COUNT[kind]), count) if chance.random() < 0.6 else _row(chance, COUNT[kind], count)
            )
            items = [f"%{kind}{n}" for n in numbers]
            if not storing and chance.random() < 0.1:
                items[chance.randrange(count)] = "_"
            data, dot = "{" + ", ".join(items) + "}", f"{dot}.v{count}"
        where = self.place(name, width * count)
        if storing:
            self.emit(f"{g}st{dot}.{code} {where}, {data}")
        else:
            self.emit(f"{g}ld{dot}.{code} {data}, {where}")

    def loads(self) -> None:
        """A run of scalar shared loads from one or two bases, with stores and moved bases among them."""
        chance = self.chance
        names = [n for n in self.usable(False) if self.reach[n].space == "shared"]
        if not names:
            self.address()
            return
        bases = [chance.choice(names) for _ in range(2)]
        for _ in range(chance.randint(2, 8)):
            name = chance.choice(bases)
            if name not in self.usable(False):
                continue
            code, kind = chance.choice((("f32", "f"), ("f32", "f"), ("u32", "r"), ("b32", "r"), ("s32", "r")))
            self.emit(f"{self.guard(0.04)}ld.shared.{code} {self.any(kind)}, {self.place(name, 4)}")
            trouble = chance.random()
            if trouble < 0.08 and (not self.reading or self.sort == "racy"):
                self.access()
            elif trouble < 0.16:
                self.move_address()
            elif trouble < 0.2:
                self.arithmetic()

    # -- what threads do together --

    def atomic(self) -> None:
        """Updates whose order does not matter of bytes that all share, or any on the thread's own bytes."""
        chance = self.chance
        name = chance.choice(("add", "min", "max", "and", "or", "xor", "inc"))
        g = self.guard(0.3)
        place = chance.choice(("global", "shared" if self.counts else "own", "own"))
        if place == "own":
            names = [
                n
                for n in self.usable(True)
                if self.memory_of(self.reach[n]) != "local" and self.reach[n].owner == "own"
            ]
            if self.sort == "values" and names:
                name = chance.choice(names)
                space = self.reach[name].space
                if space == "":
                    return
                operation, code, sources = chance.choice((
                    ("add", "u32", self.any("r")), ("exch", "b32", self.any("r")), ("add", "f32", self.any("f")),
                    ("cas", "b32", f"{self.any('r')}, {self.any('r')}"), ("add", "u64", self.any("l")),
                    ("dec", "u32", "5"),
                ))  # fmt: skip
                target = self.any({"f": "f", "u": "l" if code == "u64" else "r", "b": "r"}[code[0]])
                width = int(code[1:]) // 8
                self.emit(f"{g}atom.{space}.{operation}.{code} {target}, {self.place(name, width)}, {sources}")
            return
        wide = chance.random() < 0.3 and name not in ("inc",)
        code = {"add": "u64" if wide else "u32", "inc": "u32"}.get(name) or (
            ("b64" if wide else "b32") if name in ("and", "or", "xor") else chance.choice(("s32", "u32"))
        )
        size = int(code[1:]) // 8
        # One operation per place: mixed they would depend on the order.
        slot = {"add": 0, "min": 16, "max": 24, "and": 32, "or": 40, "xor": 48, "inc": 56}[name] + (
            8 if wide and name == "add" else 0
        )
        if name in ("min", "max") and code == "u32":
            slot += 4
        if name in ("and", "or", "xor") and wide:
            slot = {"and": 32, "or": 40, "xor": 48}[name]
        source = self.any("l" if size == 8 else "r") if name != "inc" else "1000000"
        if place == "global":
            if chance.random() < 0.5 and name == "add":  # two places, as a histogram
                self.emit(f"and.b32 %u4, {self.any('r')}, {1 if size == 4 else 0}")
                self.emit("mad.wide.u32 %U3, %u4, 4, %U2")
                self.emit(f"{g}red.global.{name}.{code} [%U3+{slot}], {source}")
                return
            self.emit(f"{g}red.global.{name}.{code} [%U2+{slot}], {source}")
        else:
            self.emit(f"{g}red.shared.{name}.{code} [%u3+{slot}], {source}")

    def exchange(self) -> None:
        """A shuffle or vote of whole warps."""
        chance = self.chance
        if self.ended:
            self.emit(f"activemask.b32 {self.any('r')}")
            return
        last = self.threads % 32
        self.emit("activemask.b32 %u6")
        choice = chance.random()
        if choice < 0.4:
            mode = chance.choice(("all", "any"))
            self.emit(f"vote.sync.{mode}.pred {self.any('p')}, {self.any('p')}, %u6")
        elif choice < 0.6:
            self.emit(f"vote.sync.ballot.b32 {self.any('r')}, {self.any('p')}, %u6")
        else:
            mode = "up" if last else chance.choice(("up", "down", "bfly", "idx"))
            lane = f"{chance.randrange(32)}" if mode != "idx" or chance.random() < 0.5 else self.any("r")
            clamp = 0 if mode == "up" else 31
            kind = chance.choice("rf")
            pair = f"|{self.any('p')}" if chance.random() < 0.5 else ""
            self.emit(f"shfl.sync.{mode}.b32 {self.any(kind)}{pair}, {self.any(kind)}, {lane}, {clamp}, %u6")

    def copy(self) -> None:
        """A cp.async into the thread's own shared bytes, and the wait for it."""
        if self.reading:
            return
        size = self.chance.choice((4, 8, 16))
        target, source = self.chance.choice((0, 16)), 16 * self.chance.randrange(16)
        word = "cg" if size == 16 else "ca"
        self.emit(f"cp.async.{word}.shared.global [%u2+{target}], [%U0+{source}], {size}")
        self.emit("cp.async.commit_group")
        self.emit("cp.async.wait_group 0")

    def fault(self) -> None:
        """Let one thread make an access that faults."""
        thread = self.chance.randrange(self.threads * self.blocks)
        self.emit(f"setp.eq.u32 %p0, %u1, {thread}")
        self.emit("@%p0 " + self.chance.choice((
            f"ld.shared.f32 %f1, [%u2+{self.threads * SLOT + COUNTS}]", "ld.global.u32 %r1, [%U0+256]",
            "st.global.v2.f32 [%U1+4], {%f1, %f2}", "ld.local.u64 %l1, [%U6+64]", "st.shared.u16 [%u2+1], %h1",
            "ld.u32 %r2, [%U5+3]", "st.global.u32 [%U0+-4], %r3", "red.global.add.u32 [%U2+64], %r1",
        )))  # fmt: skip


def _row(chance: random.Random, registers: int, count: int) -> range:
    first = chance.randrange(registers - count + 1)
    return range(first, first + count)


def generate(seed: int) -> Case:
    """The program of a seed."""
    return Writer(seed).case()
