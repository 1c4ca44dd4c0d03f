"""Find loads that the compiler has moved past the arithmetic that was to hide them.

The gates on overlap count machine code. PTX still has the order of the source. If loads of a line are long before their
first use in PTX, but not in machine code, ptxas has moved them, and the order in the kernel is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.ptx import cfg, parser
from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.sass import prepare
from gemm_lessons.engine.sass.exposed_latency import ENOUGH
from gemm_lessons.engine.sass.flow import reads, results, stored
from gemm_lessons.engine.sass.operands import Decoded
from gemm_lessons.engine.sass.planning import Plan, brought

COPY = "LDGSTS"  # waited for as a group; ptxas does not move it past the wait
LEAVING = frozenset({"BRA", "EXIT", "RET"})
HIDING_PRODUCTS = {"mma": 4, "wmma": 8, "dp4a": 1, "fma": 1, "mul": 1}  # multiply-adds that take as long
FLOATS = frozenset({"f32", "f64"})
Found = Iterator[tuple[int, int]]  # lines of loads, each with the arithmetic before the first use


def count_moved_loads(compiled: Compiled) -> int | None:
    """Return the first line whose loads the compiler has moved past arithmetic; None if there is none."""
    plan = prepare(compiled).plan
    kernel = parser.parse(compiled.ptx).kernels.get(compiled.entry)
    if plan is None or kernel is None:
        return None
    early = {line for line, arithmetic in _of_ptx(kernel.instructions) if arithmetic >= ENOUGH}
    kept = {line for line, arithmetic in _of_machine_code(plan) if arithmetic >= ENOUGH}
    left = {line for line, _ in _of_machine_code(plan)}
    return min(early & left - kept, default=None)


def _of_ptx(instructions: Sequence[Instruction]) -> Found:
    for place, load in enumerate(instructions):
        line = cfg.line_of(load)
        if load.opcode != "ld" or "global" not in load.modifiers or line is None:
            continue
        names = cfg.writes(load)
        after = instructions[place + 1 :]
        yield line, _until((bool(names & cfg.reads(it)) or _ends(it), _ptx_arithmetic(it)) for it in after)


def _ptx_arithmetic(instruction: Instruction) -> int:
    if instruction.opcode in ("fma", "mul") and not FLOATS.intersection(instruction.modifiers):
        return 0
    if instruction.opcode == "wmma" and "mma" not in instruction.modifiers:
        return 0
    return HIDING_PRODUCTS.get(instruction.opcode, 0)


def _ends(instruction: Instruction) -> bool:
    return instruction.opcode in ("bra", "ret", "exit") and instruction.guard is None


def _of_machine_code(plan: Plan) -> Found:
    code, hides = plan.program.code, plan.work.hides
    for load in code:
        if not brought(load) or load.name == COPY or load.source.line is None:
            continue
        names = frozenset(filter(None, results(load)[0]))
        after = code[load.index + 1 :]
        yield load.source.line, _until((_uses(it, names), hides[it.index]) for it in after)


def _uses(d: Decoded, names: frozenset[str]) -> bool:
    return (d.name in LEAVING and d.guard is None) or not names.isdisjoint((*reads(d), *stored(d)))


def _until(after: Iterable[tuple[bool, int]]) -> int:
    """Return the arithmetic before the first instruction that ends the search, up to ``ENOUGH``.

    ``after``: for each instruction, whether it ends the search, and its arithmetic.
    """
    total = 0
    for ends, arithmetic in after:
        if total >= ENOUGH or ends:
            break
        total += arithmetic
    return total
