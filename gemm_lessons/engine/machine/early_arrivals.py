"""Explains an arrival for which a phase of an mbarrier has no room: often a wait is missing before it.

A thread that has arrived in this phase before, such as a producer that fills a stage again, should have waited for the
threads that use the stage. If no line of the kernel waits for the mbarrier at which these arrive, that is the cause. So
it is if none waits for the mbarrier itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.machine.mbarriers import MbarrierFault, is_arrival, is_wait
from gemm_lessons.engine.machine.source_lines import SourceLines
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx.provenance import provenance
from gemm_lessons.engine.ptx.records import Kernel
from gemm_lessons.engine.records.facts import ArrivedAgain, MbarrierMisuse


def explained(
    fault: MbarrierFault, state: State, kernel: Kernel, arrays: Mapping[str, tuple[int, int]]
) -> MbarrierFault:
    """Return the fault with its likely cause, if there is one. ``arrays``: shared arrays, (offset, bytes) by name."""
    facts = fault.finding.facts
    if fault.finding.case != "arrived" or not isinstance(facts, MbarrierMisuse) or fault.instruction is None:
        return fault
    lines = SourceLines(kernel)
    before = _before(fault, state)
    if before is None:
        return fault
    here = lines.line(fault.instruction.index), lines.line(before)
    phase = int(state.phases.phase[fault.cell])
    name, arrival = next(without_waits(kernel, provenance(kernel, frozenset(arrays))), ("", None))
    name, line = plain_name(name), None if arrival is None else lines.line(arrival)
    case = "arrived again"
    if name:
        case += " unseen" if name == facts.mbarrier.array else " unwaited"
    cause = ArrivedAgain(case, facts.mbarrier, phase, *here, name, line)
    fault.finding = dataclasses.replace(fault.finding, facts=dataclasses.replace(facts, cause=cause))
    return fault


def _before(fault: MbarrierFault, state: State) -> int | None:
    """Return the instruction by which the same lane has arrived in the same phase, or None."""
    phase = state.phases.phase[fault.cell]
    for event, here in state.history.at(fault.cell, "arrived"):
        if fault.lane in event.lanes[here[event.phase[here] == phase]]:
            return event.index
    return None


def without_waits(kernel: Kernel, names: Mapping[int, str]) -> Iterator[tuple[str, int]]:
    """Yield the arrays of mbarriers at which threads arrive but for which none waits, each with an arrival's index.
    None is yielded if a wait may be for any array. ``names``: the shared array of each instruction, where known."""
    awaited = {names.get(i.index) for i in kernel.instructions if is_wait(i)}
    if None in awaited:
        return
    for instruction in kernel.instructions:
        name = names.get(instruction.index)
        if is_arrival(instruction) and name is not None and name not in awaited:
            yield name, instruction.index
