"""Entry points of the second opinion. They run after the PTX machine finishes a launch, before results are reported.

counted launch -> barriers, multiply-adds, footprints (counters/cross_check.py) -> if in doubt: words (exact.py)
launch that faulted -> does machine code leave its memory, too? (leaving.py)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from gemm_lessons.engine import sass as machinecode
from gemm_lessons.engine.counters import cross_check as accounts
from gemm_lessons.engine.counters.counters import CounterObserver
from gemm_lessons.engine.events import Observer
from gemm_lessons.engine.machine.machine import Machine
from gemm_lessons.engine.machine.state import Fault
from gemm_lessons.engine.ptx.anticipated import always_needed
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.second_opinion import leaving
from gemm_lessons.engine.second_opinion.exact import WordComparison

Again = Callable[[Observer], Machine]  # runs the same launch again from the start, with an observer


def check_launch(machine: Machine, counters: CounterObserver | None, findings: Sequence[Finding], again: Again) -> None:
    """Check a launch that ended without a fault. Raise ``Disagreement``. Skip machine code that was not followed."""
    if counters is None or counters.followed is None or not _defined(counters.code, findings):
        return
    mine, theirs, code = counters.interpreted, counters.followed, counters.code
    blocks, grid = machine.program.blocks, machine.grid
    accounts.check_barriers(mine, theirs, machine.program.kernel.instructions, grid.threads)
    accounts.check_fused(mine, theirs, blocks, counters.lanes)
    # ptxas updates a tensor map by loads, stores and atomics of its fields. Their layout is that of the GPU.
    maps = frozenset(
        (it.source.file if it.source else "", line_of(it))
        for it in machine.program.kernel.instructions
        if it.opcode == "tensormap"
    )
    mine, theirs = mine.without(maps), theirs.without(maps)
    kinds = accounts.doubts(mine, theirs, code.shared_origin)
    if any(variable.space == "const" for variable in machine.program.variables):
        # The driver places constants loaded as global memory; machine code does not show where.
        kinds = tuple(kind for kind in kinds if kind != ("global", "load"))
    if not kinds:
        return
    look = WordComparison(kinds, mine, theirs, grid.blocks, code.shared_origin, maps)
    with contextlib.suppress(Fault, machinecode.Uncountable):  # sampled blocks may wait for blocks that do not run
        again(look.interpreted).run(look.blocks)
        machinecode.count(code, machine.launch, machine.initial_memory, look.blocks, look.followed)
        look.judge(always_needed(blocks), machine.state.padded)


def check_fault(
    machine: Machine, fault: Fault, prepare: Callable[[], machinecode.Code], findings: Sequence[Finding]
) -> None:
    """Check a launch that ``fault`` ended. Raise ``Disagreement``. Run ``prepare`` (0.3 s) only when needed."""
    if leaving.concerns(fault, machine) and _defined(code := prepare(), findings):
        leaving.confirm(fault, code, machine)


def _defined(code: machinecode.Code, findings: Sequence[Finding]) -> bool:
    """Return whether both engines must see the same values.

    Each engine has its own value for unset registers, uninitialised memory and racing stores, which may decide an
    address.
    """
    depends_on_memory = code.plan is not None and bool(code.plan.spaces)
    serious = [finding for finding in findings if finding.severity != "note"]
    return not any(finding.kind in ("unset", "shuffle_source") or depends_on_memory for finding in serious)
