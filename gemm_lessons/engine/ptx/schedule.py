"""Schedules a basic block as steps that process many registers at once, which makes the simulator fast.

A NumPy call costs about a microsecond, and a thread-tile GEMM is almost only ``fma``. So within one basic block
- multiply-adds of one kind (``GROUPED``) wait in a pool until a result is needed, then are issued in groups of
  independent ones (an outer product of 8 + 8 registers becomes one broadcast multiplication);
- products of ``mma`` of one form wait in the same way, over instructions that only compute;
- shared-memory loads from the same base register become one gather;
- neighbouring register moves become one copy.
Only the order of independent instructions changes; memory accesses keep their order relative to stores and barriers,
and every instruction is still counted and recorded individually.

Registers are then placed so that the members of a group are neighbouring rows of the register file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from gemm_lessons.engine.ptx.cfg import Block, is_product, reads, writes
from gemm_lessons.engine.ptx.records import Address, Instruction, Register, register_width
from gemm_lessons.engine.records.frozen import dataclass

POOL_LIMIT = 512  # pending fma; bounds the live range of loaded values
# Multiply-adds d, a, b, c that are issued in groups, by opcode and modifiers -> width of their registers.
GROUPED = {"fma.rn.f32": 32, "fma.rn.f64": 64, "dp4a.s32.s32": 32}


@dataclass(frozen=True)
class Single:
    """One instruction by itself."""

    instruction: Instruction


@dataclass(frozen=True)
class FmaGroup:
    """Independent multiply-adds of one kind. With ``rows`` and ``columns`` it is a full outer product:
    ``instructions[i * len(columns) + j]`` multiplies rows[i] by columns[j]."""

    instructions: tuple[Instruction, ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Return the group's key in ``GROUPED``."""
        return _kind(self.instructions[0])


@dataclass(frozen=True)
class ProductGroup:
    """Independent ``mma`` of one form."""

    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class LoadGroup:
    """Scalar 32-bit shared loads from one base register, in program order."""

    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class MoveGroup:
    """Register-to-register 32-bit moves whose sources may all be read before any target is written."""

    instructions: tuple[Instruction, ...]


Step = Single | FmaGroup | ProductGroup | LoadGroup | MoveGroup


def _all_registers(instruction: Instruction) -> bool:
    return set(map(type, instruction.operands)) <= {Register}


def _kind(instruction: Instruction) -> str:
    return _full(instruction.opcode, instruction.modifiers)


@lru_cache(maxsize=2000)
def _full(opcode: str, modifiers: tuple[str, ...]) -> str:
    return ".".join((opcode, *modifiers))


def _is_fma(instruction: Instruction) -> bool:
    return (
        instruction.opcode in ("fma", "dp4a")
        and _kind(instruction) in GROUPED
        and instruction.guard is None
        and _all_registers(instruction)
    )


def _is_shared_load(instruction: Instruction) -> bool:
    return (
        instruction.opcode == "ld"
        and instruction.modifiers in (("shared", "f32"), ("shared", "u32"), ("shared", "b32"), ("shared", "s32"))
        and instruction.guard is None
        and isinstance(instruction.operands[1], Address)
        and isinstance(instruction.operands[1].base, Register)
    )


def _is_move(instruction: Instruction) -> bool:
    return (
        instruction.opcode == "mov"
        and instruction.modifiers in (("f32",), ("b32",), ("u32",), ("s32",))
        and instruction.guard is None
        and _all_registers(instruction)
        and not any("." in operand.name for operand in instruction.operands if isinstance(operand, Register))
    )


def _touches_memory(instruction: Instruction) -> bool:
    """Return whether pending loads must be issued first, because the instruction may write or order memory."""
    return instruction.row.effect not in ("compute", "load")


class _Pool:
    """Pending instructions, with the union of the registers that they read and write."""

    def __init__(self) -> None:
        self.members: list[Instruction] = []
        self.reads: set[str] = set()
        self.writes: set[str] = set()

    def add(self, instruction: Instruction) -> None:
        self.members.append(instruction)
        self.reads |= reads(instruction)
        self.writes |= writes(instruction)

    def blocks(self, instruction: Instruction) -> bool:
        """Return whether ``instruction`` must run after the members."""
        written = writes(instruction)
        return not (
            self.writes.isdisjoint(reads(instruction))
            and self.reads.isdisjoint(written)
            and self.writes.isdisjoint(written)
        )

    def take(self) -> list[Instruction]:
        members = self.members
        self.__init__()  # type: ignore[misc]
        return members


def schedule(block: Block) -> tuple[Step, ...]:
    """Return the steps of one block, without its terminator (a branch or barrier)."""
    body = block.instructions[:-1] if block.terminator is not None else block.instructions
    if len(body) < 2:
        return tuple(Single(instruction) for instruction in body)
    steps: list[Step] = []
    loads, fmas = _Pool(), _Pool()

    def flush_loads() -> None:
        steps.extend(_group_loads(loads.take()))

    def flush_all() -> None:
        flush_loads()
        steps.extend(_group_fmas(fmas.take()))

    for instruction in body:
        if _is_fma(instruction) or is_product(instruction):
            if fmas.members and _kind(fmas.members[0]) != _kind(instruction):
                flush_all()
            fmas.add(instruction)
            if len(fmas.members) >= POOL_LIMIT:
                flush_all()
            continue
        if fmas.members and (fmas.blocks(instruction) or _ends_pool(fmas.members[0], instruction)):
            flush_all()
        if loads.members and loads.blocks(instruction):
            flush_loads()
        if _is_shared_load(instruction):
            loads.add(instruction)
            continue
        if loads.members and _touches_memory(instruction):
            flush_loads()
        steps.append(Single(instruction))
    flush_all()
    return tuple(_group_moves(steps))


def _ends_pool(pending: Instruction, instruction: Instruction) -> bool:
    """Return whether pending multiply-adds must be issued first although no register requires it. A product faults
    where a warp is incomplete, so it keeps its order relative to all instructions that may fault."""
    if is_product(pending):
        return not instruction.row.computes
    return instruction.row.effect == "unknown"


def _group_loads(instructions: Sequence[Instruction]) -> Iterable[Step]:
    by_base: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        address = instruction.operands[1]
        assert isinstance(address, Address)
        assert isinstance(address.base, Register)
        by_base.setdefault(address.base.name, []).append(instruction)
    for members in by_base.values():
        if len(members) == 1:
            yield Single(members[0])
        else:
            yield LoadGroup(tuple(members))


def _group_fmas(instructions: Sequence[Instruction]) -> Iterable[Step]:
    """Yield levels of independent instructions, as outer products where possible."""
    level_of_write: dict[str, int] = {}
    level_of_read: dict[str, int] = {}
    levels: list[list[Instruction]] = []
    for instruction in instructions:
        written, read = writes(instruction), reads(instruction)
        level = -1
        for name in written:
            level = max(level, level_of_write.get(name, -1), level_of_read.get(name, -1))
        for name in read:
            level = max(level, level_of_write.get(name, -1))
        level += 1
        level_of_write.update(dict.fromkeys(written, level))
        for name in read:
            if level_of_read.get(name, -1) < level:
                level_of_read[name] = level
        if level == len(levels):
            levels.append([])
        levels[level].append(instruction)
    for members in levels:
        if len(members) == 1:
            yield Single(members[0])
        else:
            yield ProductGroup(tuple(members)) if is_product(members[0]) else outer_product(members)


def outer_product(members: Sequence[Instruction]) -> FmaGroup:
    """Return the members as a full outer product if they form one (factors may be swapped in some of them)."""
    pairs: dict[frozenset[str], Instruction] = {}
    neighbours: dict[str, set[str]] = {}
    for instruction in members:
        first, second = (operand.name for operand in instruction.operands[1:3] if isinstance(operand, Register))
        pairs[frozenset((first, second))] = instruction
        neighbours.setdefault(first, set()).add(second)
        neighbours.setdefault(second, set()).add(first)
    start = members[0].operands[1]
    assert isinstance(start, Register)
    columns = neighbours[start.name]
    rows = neighbours[next(iter(columns))]
    if len(pairs) != len(members) or len(rows) * len(columns) != len(members) or rows & columns:
        return FmaGroup(tuple(members))
    ordered_rows = tuple(name for name in neighbours if name in rows)
    ordered_columns = tuple(name for name in neighbours if name in columns)
    try:
        ordered = tuple(pairs[frozenset((r, c))] for r in ordered_rows for c in ordered_columns)
    except KeyError:
        return FmaGroup(tuple(members))
    return FmaGroup(ordered, ordered_rows, ordered_columns)


def _group_moves(steps: Sequence[Step]) -> Iterable[Step]:
    pending: list[Instruction] = []
    written: set[str] = set()

    def flush() -> Iterable[Step]:
        if len(pending) > 1:
            yield MoveGroup(tuple(pending))
        else:
            yield from (Single(instruction) for instruction in pending)
        pending.clear()
        written.clear()

    for step in steps:
        if isinstance(step, Single) and _is_move(step.instruction):
            if reads(step.instruction) & written or writes(step.instruction) & written:
                yield from flush()
            pending.append(step.instruction)
            written |= writes(step.instruction)
            continue
        yield from flush()
        yield step
    yield from flush()


def places_of(blocks: Iterable[Sequence[Step]], registers: Mapping[str, str]) -> dict[str, tuple[int | str, int]]:
    """Return the width of each register and its row among those of its width. The members of groups are neighbours
    where possible."""
    order: dict[str, None] = {}
    declared = dict.fromkeys(registers)

    def place(names: Iterable[str]) -> None:
        for name in names:
            if name in declared:  # not a special register
                order.setdefault(name, None)

    steps = [step for block in blocks for step in block]
    groups = sorted((s for s in steps if isinstance(s, FmaGroup)), key=lambda g: -len(g.instructions))
    for group in groups:
        place(_name(i, 0) for i in group.instructions)
        place(_name(i, 3) for i in group.instructions)
    for step in steps:
        if isinstance(step, LoadGroup):
            place(_name(i, 0) for i in step.instructions)
    for step in steps:
        if isinstance(step, MoveGroup):
            place(_name(i, 0) for i in step.instructions)
            place(_name(i, 1) for i in step.instructions)
    place(declared)
    widths = {name: register_width(registers[name]) for name in order}
    rows = {width: itertools.count() for width in widths.values()}
    return {name: (width, next(rows[width])) for name, width in widths.items()}


def _name(instruction: Instruction, position: int) -> str:
    operand = instruction.operands[position]
    assert isinstance(operand, Register)
    return operand.name
