"""Entry points of the second opinion. They run after the PTX machine finishes a launch, before results are reported.

counted launch -> barriers, multiply-adds, footprints (counters/cross_check.py) -> if in doubt: words (exact.py)
launch that faulted -> does machine code leave its memory, or is it misaligned, too?

The machine code of the blocks that ran at a fault is followed until an access leaves its memory or is misaligned. If
none does, one engine is wrong, and the fault is not reported to the learner. There is no second opinion if machine code
cannot be followed, or if the fault is at a load that ptxas may have dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from gemm_lessons.engine import sass as machinecode
from gemm_lessons.engine.counters import cross_check as accounts
from gemm_lessons.engine.counters.counters import CounterObserver
from gemm_lessons.engine.counters.cross_check import MACHINE_CODE, Disagreement
from gemm_lessons.engine.events import Access, LaunchInfo, Observer
from gemm_lessons.engine.machine.access import reaches_cluster
from gemm_lessons.engine.machine.machine import Machine
from gemm_lessons.engine.machine.state import Fault
from gemm_lessons.engine.ptx.anticipated import always_needed
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.sass import Code, Uncountable
from gemm_lessons.engine.sass.memory_contents import MemoryBounds
from gemm_lessons.engine.second_opinion.exact import WordComparison

Again = Callable[[Observer], Machine]  # runs the same launch again from the start, with an observer
BUDGET = 50_000  # basic blocks of machine code: a kernel that faulted may never end
KINDS = frozenset({"out_of_bounds", "misaligned"})
COPIES_ALL = 3  # operands of a cp.async that copies as much as it writes


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
    if concerns(fault, machine) and _defined(code := prepare(), findings):
        confirm(fault, code, machine)


def _defined(code: machinecode.Code, findings: Sequence[Finding]) -> bool:
    """Return whether both engines must see the same values.

    Each engine has its own value for unset registers, uninitialised memory and racing stores, which may decide an
    address.
    """
    depends_on_memory = code.plan is not None and bool(code.plan.spaces)
    serious = [finding for finding in findings if finding.severity != "note"]
    return not any(finding.kind in ("unset", "shuffle_source") or depends_on_memory for finding in serious)


class _Left(Exception):
    """Machine code made a wrong access, too."""


def concerns(fault: Fault, machine: Machine) -> bool:
    """Return whether machine code can confirm ``fault`` of a run of ``machine``: whether it is about an address."""
    instruction = fault.instruction
    if fault.kind not in KINDS or instruction is None or not _comparable(instruction, machine.launch):
        return False
    if fault.kind == "misaligned" and "async" in instruction.modifiers and len(instruction.operands) > COPIES_ALL:
        return False  # in machine code, the low bits of the address hold the number of bytes to copy
    return instruction.index in always_needed(machine.program.blocks)


def confirm(fault: Fault, code: Code, machine: Machine) -> None:
    """Raise ``Disagreement`` if the machine code of the faulting blocks ends without a fault.

    ``fault``: one for which ``concerns`` is true.
    """
    instruction, launch = fault.instruction, machine.launch
    if instruction is None or code.plan is None:
        return
    batch = machine.state.batch
    running = range(batch.place, batch.place + batch.blocks)
    bounds = MemoryBounds(machine.initial_memory(), code.shared_origin, launch.shared_bytes)

    def watch(access: Access, addresses: Array, active: Array | None, first_lane: int) -> None:
        used = addresses if active is None else addresses[active]
        if used.size and bounds.left(access, used):
            raise _Left

    try:
        machinecode.count(code, launch, machine.initial_memory, [running], watch, BUDGET)
    except (_Left, Uncountable):
        return
    raise Disagreement(f"the PTX interpreter says '{fault}', but {MACHINE_CODE} leaves no memory", line_of(instruction))


def _comparable(instruction: Instruction, launch: LaunchInfo) -> bool:
    """Return whether machine code makes the same access. It does not for local memory and constants, which become
    registers and operands. Other blocks' shared memory, bulk copies, mbarriers and ``wgmma`` are not compared."""
    if launch.grid.cluster and "global" not in instruction.modifiers and reaches_cluster(instruction):
        return False
    spaces = {modifier.partition("__")[0] for modifier in instruction.modifiers}
    if spaces & {"local", "const", "param"} or "bulk" in spaces or instruction.row.effect == "phase":
        return False
    if instruction.opcode == "wgmma":  # machine code is followed without the tiles that descriptors name
        return False
    return bool(spaces & {"global", "shared"}) or not launch.local_bytes
