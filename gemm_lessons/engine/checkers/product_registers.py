"""Registers of products that run asynchronously (``wgmma``): used before they are complete, or written without a fence.

A forward analysis of the code. At each instruction it holds the registers of the groups of products that may still run,
oldest first, and the registers that were written since the last ``wgmma.fence``. Where paths meet, the newest groups of
both are joined. A plain move between registers does not count as a use: compilers rename registers with it, and ptxas
removes it. Nor does a store to local memory: if a loop over the sums is not unrolled, compilers move them there, even
ahead of the wait, and ptxas waits before it. The load from local memory is the use. The first product needs a fence,
too, even if its sums have no value yet. A constant may be written between the fence and the first product: compilers
move zeros there, and ptxas waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gemm_lessons.engine.ptx.cfg import build, line_of, reads, writes
from gemm_lessons.engine.ptx.dead_products import PRODUCT
from gemm_lessons.engine.ptx.records import Immediate, Instruction, Kernel, Register
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass

MOST_GROUPS = 8  # older ones are one group
LOCAL = "local memory"  # stands for a register that holds what was stored there

Uses = Mapping[str, int]  # register -> index of the product, or of the instruction that wrote it


@dataclass(frozen=True)
class _Known:
    """The state of the analysis before an instruction."""

    sums: tuple[Uses, ...]  # of groups, oldest first; the last one is not committed
    factors: tuple[Uses, ...]  # registers of A, likewise
    written: Uses  # since the last fence
    fenced: bool = False  # a fence was executed, and no product since
    begun: bool = False  # every path to the instruction has a fence

    def joined(self, other: _Known) -> _Known:
        return _Known(
            _joined(self.sums, other.sums),
            _joined(self.factors, other.factors),
            {**other.written, **self.written},
            self.fenced and other.fenced,
            self.begun and other.begun,
        )


def _joined(one: Sequence[Uses], other: Sequence[Uses]) -> tuple[Uses, ...]:
    most = max(len(one), len(other))
    first, second = ([*({} for _ in range(most - len(groups))), *groups] for groups in (one, other))
    return tuple({**b, **a} for a, b in zip(first, second, strict=True))


def product_registers(kernel: Kernel) -> list[Finding]:
    """Return the findings of a kernel's code, one for each pair of lines."""
    if not any(it.row.name == PRODUCT for it in kernel.instructions):
        return []
    blocks, followed = build(kernel), _followed(kernel)
    known: dict[int, _Known] = {0: _Known(({},), ({},), {})}
    work = [0]
    while work:
        number = work.pop()
        after = known[number]
        for instruction in blocks[number].instructions:
            after = _after(after, instruction, followed)
        for successor in blocks[number].successors:
            before = known.get(successor)
            meet = after if before is None else before.joined(after)
            if meet != before:
                known[successor] = meet
                work.append(successor)
    found: dict[tuple[str, int | None, int | None], Finding] = {}
    for number, before in sorted(known.items()):
        for instruction in blocks[number].instructions:
            for finding in _found(before, instruction, kernel):
                found.setdefault((finding.case, finding.line, finding.other_line), finding)
            before = _after(before, instruction, followed)
    return list(found.values())


def _is_move(instruction: Instruction) -> bool:
    return instruction.row.name == "mov" and all(isinstance(it, Register) for it in instruction.operands)


def _is_local(instruction: Instruction, effect: str) -> bool:
    return instruction.row.effect == effect and "local" in instruction.modifiers


def _followed(kernel: Kernel) -> frozenset[str]:
    """Return the registers of products, and all registers that moves connect with them: only these cause findings."""
    connected: dict[str, set[str]] = {}
    work: list[str] = []
    for instruction in kernel.instructions:
        if instruction.row.name == PRODUCT:
            work += [name for names in _registers(instruction) for name in names]
        elif _is_move(instruction):
            target, source = (it.name for it in instruction.operands if isinstance(it, Register))
            connected.setdefault(target, set()).add(source)
            connected.setdefault(source, set()).add(target)
    found: set[str] = set()
    while work:
        name = work.pop()
        if name not in found:
            found.add(name)
            work += connected.get(name, ())
    return frozenset(found)


def _after(known: _Known, instruction: Instruction, followed: frozenset[str]) -> _Known:
    """Return the state after an instruction, restricted to the registers ``followed``."""
    name = instruction.row.name
    if name == PRODUCT:
        sums, factors = _registers(instruction)
        mine = dict.fromkeys(sums, instruction.index)
        # A product that adds to the sums of an earlier one follows it: they complete together.
        older = tuple({k: v for k, v in group.items() if k not in mine} for group in known.sums[:-1])
        read = {**known.factors[-1], **dict.fromkeys(factors, instruction.index)}
        written = {k: v for k, v in known.written.items() if k not in mine}
        return _Known((*older, {**known.sums[-1], **mine}), (*known.factors[:-1], read), written, begun=known.begun)
    if name == "wgmma.fence":
        return _Known(known.sums, known.factors, {}, fenced=True, begun=True)
    if name == "wgmma.commit_group":
        return replace(known, sums=_committed(known.sums), factors=_committed(known.factors))
    if name == "wgmma.wait_group":
        number = instruction.operands[0]
        kept = number.value if isinstance(number, Immediate) else 0
        return replace(known, sums=_waited(known.sums, kept), factors=_waited(known.factors, kept))
    if _is_local(instruction, "store"):
        stored = reads(instruction)

        def with_stored(uses: Uses) -> Uses:
            early = [uses[register] for register in sorted(stored) if register in uses]
            return {**uses, LOCAL: early[0]} if early else uses

        return replace(known, sums=tuple(map(with_stored, known.sums)))
    changed = writes(instruction) & followed
    constant = instruction.row.name == "mov" and all(isinstance(it, Immediate) for it in instruction.operands[1:])
    if not changed or (known.fenced and constant):
        return known
    if _is_move(instruction):
        return _moved(known, instruction)
    return replace(known, written={**known.written, **dict.fromkeys(changed, instruction.index)})


def _registers(instruction: Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers of D, and of A if it is in registers."""
    sums, factors = instruction.mentioned[:2]
    return sums, frozenset() if isinstance(instruction.operands[1], Register) else factors


def _committed(groups: tuple[Uses, ...]) -> tuple[Uses, ...]:
    if len(groups) > MOST_GROUPS:
        groups = ({**groups[0], **groups[1]}, *groups[2:])
    return (*groups, {})


def _waited(groups: tuple[Uses, ...], kept: int) -> tuple[Uses, ...]:
    return groups[-1 - kept :]


def _moved(known: _Known, instruction: Instruction) -> _Known:
    """Return the state after a move, which renames a register."""
    target, source = (it.name for it in instruction.operands if isinstance(it, Register))

    def renamed(uses: Uses) -> Uses:
        if source not in uses and target not in uses:
            return uses
        rest = {k: v for k, v in uses.items() if k != target}
        return {**rest, target: uses[source]} if source in uses else rest

    sums, factors = tuple(map(renamed, known.sums)), tuple(map(renamed, known.factors))
    return replace(known, sums=sums, factors=factors, written=renamed(known.written))


def _found(known: _Known, instruction: Instruction, kernel: Kernel) -> list[Finding]:
    if instruction.row.name == PRODUCT:
        sums, factors = _registers(instruction)
        early = [at for register in sorted(sums | factors) if (at := known.written.get(register)) is not None]
        if early:
            return [_finding("async_proxy", "registers", instruction, kernel.instructions[early[0]], kernel)]
        if not known.begun:  # PTX ISA, wgmma.fence: before the first product of a kernel, too
            file = instruction.source.file if instruction.source else ""
            return [Finding("async_proxy", "warning", "first product", line_of(instruction), file=file)]
        return []
    if _is_move(instruction) or _is_local(instruction, "store") or instruction.row.effect == "group":
        return []
    if not any(known.sums) and not any(known.factors):
        return []
    found = []
    local = {LOCAL} if _is_local(instruction, "load") else set()
    for groups, case, touched in (
        (known.sums, "accumulator", reads(instruction) | writes(instruction) | local),
        (known.factors, "operand", writes(instruction)),
    ):
        products = [group[register] for group in groups for register in sorted(touched) if register in group]
        if products:
            found.append(_finding("async_in_flight", case, instruction, kernel.instructions[products[0]], kernel))
    return found


def _finding(kind: str, case: str, instruction: Instruction, other: Instruction, kernel: Kernel) -> Finding:
    file, other_file = (it.source.file if it.source else "" for it in (instruction, other))
    elsewhere = other_file if other_file != file else ""
    calls = ((line_of(it), kernel.called_in(it)) for it in (instruction, other))
    called = tuple((line, call) for line, call in calls if line and call)
    return Finding(
        kind, "error", case, line_of(instruction), line_of(other), file=file, other_file=elsewhere, calls=called
    )
