"""Random PTX programs of products and sums: does the simulator round as the machine code that ptxas makes of them?

    python -m checks.simulator.joined f32 sm_90 0 500          programs 0 to 499 of a type; prints those that differ
    python -m checks.simulator.joined f32 sm_90 0 500 spread   of several blocks

ptxas decides which product is rounded separately and which becomes part of a multiply-add (``ptx/fma_contraction.py``).
``whole_code`` executes all of the machine code, so that no GPU is needed. Programs have nothing that compilers do not
leave in PTX: unused results, repeated products, loop invariants. Those of several blocks have no sum of a product and
one of its factors: ptxas computes such a product twice if it is moved into a register that other blocks write, too.
"""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from checks.compiling import must_compile
from checks.simulator.whole_code import Cubin
from checks.usage import help_if_asked
from gemm_lessons.engine.api import arguments
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.simulator import Setting, Simulator

# The bits of an element, and the type of its register.
TYPES = {"f32": (32, "f32"), "f64": (64, "f64"), "f16": (16, "b16"), "bf16": (16, "b16"),
         "f16x2": (32, "b32"), "bf16x2": (32, "b32")}  # fmt: skip
OPERATIONS = [("mul", 2)] * 4 + [("add", 2)] * 3 + [("sub", 2)] * 2 + [("neg", 1), ("fma.rn", 3), ("mov", 1)]
CONSTANTS = (0.6, -1.7, 3.1, 0.5, 0.25, 2.0, 8.0, -0.5, 16.0)
INPUTS, LANES = 5, 64
SHAPE = Grid((1, 1, 1), (LANES, 1, 1))
HEAD = (".reg .b64 in, out, off; .reg .b32 x, y; .reg .pred p0, p1, p2; mov.u32 x, %%tid.x;"
        " mul.wide.u32 off, x, {size}; add.s64 in, %0, off; add.s64 out, %1, off; and.b32 y, x, 1;"
        " setp.eq.s32 p0, y, 1; and.b32 y, x, 2; setp.eq.s32 p1, y, 2;")  # fmt: skip


@dataclass(frozen=True)
class Program:
    """``lines`` of PTX between loads and stores, with ``count`` registers; ``results`` are stored."""

    type: str
    lines: tuple[str, ...]
    count: int
    results: tuple[str, ...]

    def kernel(self, name: str) -> str:
        """As a line of CUDA C++."""
        bits, register = TYPES[self.type]
        row = LANES * bits // 8
        loads = [f"ld.global.b{bits} v{n}, [in+{row * n}];" for n in range(INPUTS)]
        stores = [f"st.global.b{bits} [out+{row * n}], {result};" for n, result in enumerate(self.results)]
        head = HEAD.format(size=bits // 8) + f" .reg .{register} v<{self.count}>;"
        text = "\\n".join([head, *loads, *self.lines, *stores])
        return (f'extern "C" __global__ void {name}(unsigned long long in, unsigned long long out)'
                f' {{ asm volatile("{{{text}}}" :: "l"(in), "l"(out) : "memory"); }}\n')  # fmt: skip


def program(seed: int, kind: str, steps: int = 16) -> Program:
    """The program of a seed: mostly straight-line code, with a few predicated sums and short branches."""
    drawn = random.Random(f"{kind} {seed}")
    bits = TYPES[kind][0]
    made = [f"v{n}" for n in range(INPUTS)]
    lines: list[str] = []
    known: set[tuple[str, ...]] = set()
    read: set[str] = set()
    ends = -1  # of a branch
    outside: list[str] = []
    merged = ""

    def new() -> str:
        return f"v{INPUTS + len(lines)}"

    def close() -> None:
        if (inner := [name for name in made if name not in outside]) and merged:
            lines.append(f"mov.b{bits} {merged}, {inner[-1]};")
            read.add(inner[-1])
        lines.append(f"L{ends}:")
        made[:] = [*outside, merged]

    for step in range(steps):
        if step == ends:
            close()
        if step > ends and step < steps - 4 and drawn.random() < 0.04:
            ends, merged = step + 4, new()
            lines.append(f"mov.b{bits} {merged}, {drawn.choice(made)};")
            lines.append(f"@p{drawn.randrange(2)} bra L{ends};")
            outside = list(made)
        opcode, count = drawn.choice(OPERATIONS)
        sources = [drawn.choice(made[-5:] if drawn.random() < 0.7 else made) for _ in range(count)]
        same = (opcode, *(sorted(sources) if opcode in ("mul", "add") else sources))
        if same in known:
            continue
        known.add(same)
        read |= set(sources)
        result = new()
        guard = ""
        if opcode in ("add", "sub") and drawn.random() < 0.1:
            before = drawn.choice(made)
            read.add(before)
            lines.append(f"mov.b{bits} {result}, {before};")
            guard = drawn.choice(["@p0 ", "@!p1 "])
        form = f"mov.b{bits}" if opcode == "mov" else f"{opcode}.{kind}"
        lines.append(f"{guard}{form} {result}, {', '.join(sources)};")
        made.append(result)
    if ends >= steps:
        close()
    results = [name for name in made[INPUTS:] if name not in read or drawn.random() < 0.08]
    return Program(kind, _read(lines, set(results)), INPUTS + len(lines), tuple(results))


def spread(seed: int, kind: str) -> Program:
    """The program of a seed with several blocks: products, some by constants, and their sums in branches and loops that
    ptxas neither predicates nor removes."""
    drawn = random.Random(f"{kind} {seed}")
    bits = TYPES[kind][0]
    lines: list[str] = []
    read: set[str] = set()
    factors: dict[str, set[str]] = {}

    def emit(form: str, *sources: str) -> str:
        result = f"v{INPUTS + len(lines)}"
        read.update(sources)
        lines.append(f"{form} {result}, {', '.join(sources)};")
        return result

    def straight(names: list[str], count: int, own: int = 0) -> None:
        """Emit straight-line code. Its first sources are of ``names[own:]``, which change in a loop: ptxas would move
        loop invariants out."""
        for _ in range(count):
            opcode, sources = drawn.choice(OPERATIONS)
            chosen = [drawn.choice(names[-5:] if drawn.random() < 0.6 else names) for _ in range(sources)]
            chosen[0] = drawn.choice(names[own:]) if own else chosen[0]
            if opcode == "mul" and drawn.random() < 0.6:
                value = _constant(drawn.choice(CONSTANTS), kind)
                chosen[1] = value if kind in ("f32", "f64") else emit(f"mov.b{bits}", value)
            if opcode in ("add", "sub") and set(chosen) & set().union(*(factors.get(name, ()) for name in chosen)):
                continue
            names.append(emit(f"mov.b{bits}" if opcode == "mov" else f"{opcode}.{kind}", *chosen))
            if opcode in ("mul", "mov", "neg"):
                factors[names[-1]] = {*chosen, *(f for name in chosen for f in factors.get(name, ()))}

    made = [f"v{n}" for n in range(INPUTS)]
    straight(made, 5)
    for _ in range(drawn.randrange(1, 4)):
        merged, label = emit(f"mov.b{bits}", drawn.choice(made)), f"L{len(lines)}"
        inner = [*made, merged]
        loops = drawn.random() < 0.5
        lines.extend(["mov.u32 x, y;", f"{label}:"] if loops else [f"@p{drawn.randrange(2)} bra {label};"])
        lines.append("membar.gl;")  # keeps ptxas from predicating the branch
        straight(inner, drawn.randrange(2, 6), len(made) if loops else 0)
        last = emit(f"sub.{kind}", merged, inner[-1]) if loops else inner[-1]  # carries a value around the loop
        lines.append(f"mov.b{bits} {merged}, {last};")
        read.add(last)
        lines.extend(["sub.s32 x, x, 1;", "setp.gt.s32 p2, x, 0;", f"@p2 bra {label};"] if loops else [f"{label}:"])
        made.append(merged)
        straight(made, drawn.randrange(3))
    results = [name for name in made[INPUTS:] if name not in read or drawn.random() < 0.08]
    return Program(kind, _read(lines, set(results)), INPUTS + len(lines), tuple(results))


def _constant(value: float, kind: str) -> str:
    """As an operand of PTX."""
    if kind == "f64":
        return f"0d{np.float64(value).view(np.uint64):016X}"
    single = int(np.float32(value).view(np.uint32))
    if kind == "f32":
        return f"0f{single:08X}"
    half = single >> 16 if kind.startswith("bf16") else int(np.float16(value).view(np.uint16))
    return f"0x{half * (0x10001 if kind.endswith('x2') else 1):X}"


def _read(lines: Sequence[str], live: set[str]) -> tuple[str, ...]:
    """Drop lines whose result is not read; ``live``: registers that are stored."""
    kept: list[str] = []
    for line in reversed(lines):
        names = [word.rstrip(",;") for word in line.split() if word.startswith("v")]
        if names and names[0] not in live:
            continue
        live |= set(names[1:])
        kept.append(line)
    return tuple(reversed(kept))


def inputs(kind: str, scale: float = 1.0) -> Any:
    """Random numbers times ``scale``, as bits: their products have to be rounded."""
    rng = np.random.default_rng(1)
    count = (INPUTS, LANES * (2 if kind.endswith("x2") else 1))
    values = rng.uniform(0.5, 2, count) * rng.choice([-1, 1], count) * scale
    if kind.startswith("bf16"):
        raw = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        raw = values.astype({"f16": np.float16, "f16x2": np.float16, "f32": np.float32, "f64": np.float64}[kind])
    return np.ascontiguousarray(raw).view(f"u{TYPES[kind][0] // 8}").reshape(INPUTS, LANES)


def different(programs: Sequence[Program], arch: str, scale: float = 1.0) -> tuple[list[int], list[int]]:
    """Indices of the programs whose results differ from their machine code's, and of those that have a product that is
    joined with a sum."""
    source = "".join(one.kernel(f"k{n}") for n, one in enumerate(programs))
    compiled = must_compile(source, path="joined.cu", entry="k0", arch=arch)
    code, device = Cubin.of(compiled), Simulator(Setting(counting=False))
    found, joined = [], []
    for n, one in enumerate(programs):
        given = inputs(one.type, scale)
        ours = np.zeros((max(len(one.results), 1), LANES), given.dtype)
        theirs = code.run(f"k{n}", SHAPE, [given, ours])[1]
        kernel = dataclasses.replace(compiled, entry=f"k{n}")
        device.launch(kernel, SHAPE, arguments(device.kernel(kernel), [given, ours]))
        if (ours != theirs).any():
            found.append(n)
        read = sum(i.opcode == "fma" for i in device.kernel(kernel).instructions)
        if read > sum("fma" in line for line in one.lines):
            joined.append(n)
    return found, joined


def main(given: Sequence[str]) -> int:
    """The command line above."""
    kind, arch, first, end = given[0], given[1], int(given[2]), int(given[3])
    made = spread if given[4:] else program
    programs = [made(seed, kind) for seed in range(first, end)]
    found, joined = different(programs, arch)
    for n in found:
        print(f"program {first + n}", *programs[n].lines, f"stored: {', '.join(programs[n].results)}", sep="\n    ")
    print(f"{len(found)} of {len(programs)} programs differ; {len(joined)} have something to join")
    return bool(found)


if __name__ == "__main__":
    help_if_asked(__doc__)
    sys.exit(main(sys.argv[1:]))
