"""Steps that process many registers at once: outer products of ``fma``, gathers of shared loads, parallel moves.

Exactness: ``fma.rn.f32`` rounds once. In float64 the product of two float32 is exact; the sum is rounded, and rounding
it again to float32 differs from rounding once only if the float64 sum is exactly halfway between two float32 (its low
29 bits are 1 followed by zeros), or if the result is subnormal in float32. An integer pass detects the first case, the
processor's underflow flag the second. Both are rare; such sums are computed again and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.machine.access import SpaceAccess, access_of, memoise_placement
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.machine.transfers import MemoryBinder
from gemm_lessons.engine.ptx.records import Address, Instruction, Register
from gemm_lessons.engine.ptx.schedule import GROUPED, FmaGroup, LoadGroup, MoveGroup
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.floats import UNDERFLOW, canonical, fix_double_rounding, sum_error, to_odd
from gemm_lessons.engine.semantics.operation import DTYPES

TIE = np.iinfo(np.int64).min  # low 29 bits equal to 0x10000000, shifted to the top
SHIFT = 64 - 29
IN_CACHE = 1 << 15  # sums that a group computes at a time: their passes then stay in a core's cache


def _rows(state: State, names: Sequence[str]) -> slice | Array:
    numbers = [state.rows[name][1] for name in names]
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return slice(numbers[0], numbers[0] + len(numbers))
    return np.array(numbers)


def _names(instructions: Sequence[Instruction], position: int) -> list[str]:
    operands = [instruction.operands[position] for instruction in instructions]
    return [operand.name for operand in operands if isinstance(operand, Register)]


class Workspace:
    """Scratch arrays shared by all groups of a state, as large as the largest group."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self._arrays: dict[str, Array] = {}

    def get(self, key: str, rows: int, dtype: type[np.generic]) -> Array:
        """Return an uninitialised array (rows, lanes). Call at run time, not at bind time, since it may have grown."""
        array = self._arrays.get(key)
        if array is None or array.shape[0] < rows:
            array = self._arrays[key] = np.empty((rows, self.lanes), dtype)
        return array[:rows]


def bind_fma(state: State, group: FmaGroup, workspace: Workspace) -> Callable[[], None]:
    """Bind a group of independent ``fma.rn.f32`` to one closure."""
    file = state.files[32].view(np.float32)
    count = len(group.instructions)
    targets, addends = (_names(group.instructions, position) for position in (0, 3))
    first = _rows(state, group.rows or _names(group.instructions, 1))
    second = _rows(state, group.columns or _names(group.instructions, 2))
    columns = len(group.columns)  # 0: no outer product
    rows = len(group.rows) or count
    each = columns or 1  # instructions of a row
    step = max(1, IN_CACHE // (each * state.lanes))
    parts: list[tuple[slice, slice | Array, slice | Array]] = []
    for at in range(0, rows, step):
        here = slice(at * each, (at + step) * each)
        parts.append((slice(at, at + step), _rows(state, targets[here]), _rows(state, addends[here])))

    def product(part: slice, left: Array, right: Array, out: Array) -> None:
        if columns:
            np.multiply(left[part, None, :], right[None, :, :], out=out.reshape(-1, columns, state.lanes))
        else:
            np.multiply(left[part], right[part], out=out)

    def run() -> None:
        left = workspace.get("left", rows, np.float64)
        right = workspace.get("right", columns or count, np.float64)
        left[...] = file[first]
        right[...] = file[second]
        for part, target, addend in parts:
            run_part(part, left, right, target, file[addend])

    def run_part(part: slice, left: Array, right: Array, target: slice | Array, added: Array) -> None:
        total = workspace.get("sum", len(added), np.float64)
        narrow = workspace.get("narrow", len(added), np.float32)
        product(part, left, right, total)
        np.add(total, added, out=total)
        UNDERFLOW.seen = False
        np.copyto(narrow, total, casting="unsafe")
        ties = total.view(np.int64)  # in place: a second large array would cost as much as the arithmetic
        np.left_shift(ties, SHIFT, out=ties)
        if UNDERFLOW.seen:
            exact = np.empty_like(total)
            product(part, left, right, exact)
            fix_double_rounding(exact, added, exact + added, narrow)
        elif ties.min() == TIE:  # round the sums whose float64 is halfway between two float32 once
            row, lane = np.divmod(np.flatnonzero(ties == TIE), state.lanes)  # faster than nonzero() of two dimensions
            number = row + part.start * each
            exact = left[number // each, lane] * right[number % columns if columns else number, lane]
            addend = added[row, lane]
            narrow[row, lane] = to_odd(total := exact + addend, sum_error(exact, addend, total))
        canonical(narrow.reshape(-1))
        if state.full:
            file[target] = narrow
        elif isinstance(target, slice):
            np.copyto(file[target], narrow, where=state.active)
        else:
            active = state.active
            for row, values in zip(target, narrow, strict=True):
                np.copyto(file[row], values, where=active)

    return run


def bind_multiply_adds(state: State, group: FmaGroup, workspace: Workspace) -> Callable[[], None]:
    """Bind a group of independent multiply-adds of another kind to one closure. The order of the factors matters: of
    two NaNs in float64 it decides which one is the result."""
    operation = semantics.lookup(group.instructions[0].opcode, group.instructions[0].modifiers)
    assert operation is not None
    file = state.files[GROUPED[group.kind]]
    count = len(group.instructions)
    target = _rows(state, _names(group.instructions, 0))
    numbers = [[state.rows[name][1] for name in _names(group.instructions, position)] for position in range(4)]
    result, *codes = (DTYPES[code] for code in (*operation.result, *operation.sources))

    def run() -> None:
        rows = [workspace.get(key, count, file.dtype.type) for key in ("first", "second", "third")]
        for values, of in zip(rows, numbers[1:], strict=True):
            np.take(file, of, axis=0, out=values, mode="clip")
        sources = [values.reshape(-1).view(code) for values, code in zip(rows, codes, strict=True)]
        operation.function(rows[2].reshape(-1).view(result), *sources)
        if state.full:
            file[target] = rows[2]
        else:
            for row, values in zip(numbers[0], rows[2], strict=True):
                np.copyto(file[row], values, where=state.active)

    return run


def bind_moves(state: State, group: MoveGroup) -> Callable[[], None]:
    """Bind a parallel move, in which all sources are read before any target is written, to one closure."""
    file = state.files[32]
    target = _rows(state, _names(group.instructions, 0))
    source = _rows(state, _names(group.instructions, 1))
    targets = np.arange(target.start, target.stop) if isinstance(target, slice) else target
    sources = np.arange(source.start, source.stop) if isinstance(source, slice) else source
    # A parallel move needs a copy only where a row is both read and written.
    copy_first = bool(set(targets.tolist()) & set(sources.tolist()))

    def run() -> None:
        values = file[source]
        if copy_first and isinstance(source, slice):
            values = values.copy()
        if state.full:
            file[target] = values
        else:
            active = state.active
            for row, value in zip(targets, values, strict=True):
                np.copyto(file[row], value, where=active)

    return run


def bind_loads(state: State, memory: MemoryBinder, group: LoadGroup) -> Callable[[], None]:
    """Bind a group of loads: one gather when every lane is active, else one load at a time."""
    singles = [memory.load(instruction, None) for instruction in group.instructions]
    file = state.files[32]
    shared = state.shared.view(np.uint32)
    target = _rows(state, _names(group.instructions, 0))
    placements: list[Callable[..., Any]] = []
    for instruction in group.instructions:
        address = instruction.operands[1]
        assert isinstance(address, Address)
        access = access_of(instruction, "shared", "load", 4, address)
        space: SpaceAccess = memory.space_access(instruction, access, 4)
        placements.append(memoise_placement(state, address, memory.addresses(address, instruction), space))
    first_address = group.instructions[0].operands[1]
    assert isinstance(first_address, Address)
    assert isinstance(first_address.base, Register)
    base = first_address.base.name
    row = state.lanes_of(base)
    versions = state.versions
    last_version = -1
    known: dict[bytes, tuple[Array, list[Any]]] = {}
    index: Array
    touches: list[Any] = []

    def run() -> None:
        nonlocal last_version, index, touches
        if state.active is not None:
            for single in singles:
                single()
            return
        version = versions[base]
        if version != last_version:
            key = row.tobytes()
            if key not in known:
                found = [recall(None) for recall in placements]
                known[key] = np.stack([p.index for p in found]), [p.touch for p in found]
                if len(known) > 512:
                    del known[next(iter(known))]
            index, touches = known[key]
            last_version = version
        if isinstance(target, slice):
            shared.take(index, None, file[target], "clip")
        else:
            file[target] = shared[index]
        state.trace.extend(touches)

    return run
