"""``mma``: a warp multiplies two small matrices that its lanes hold together, and adds a third. Independent products of
one form run as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.matrices import whole_warps
from gemm_lessons.engine.machine.product_tally import FLOAT_SUMS
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import unsupported
from gemm_lessons.engine.ptx.fragments import Fragment, product_form
from gemm_lessons.engine.ptx.records import Instruction, Operand, Register, elements_of
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.semantics.matrix_products import STORED, multiply


def bind_products(binding: Binding, instructions: Sequence[Instruction]) -> Callable[[], None]:
    """Bind independent products of one form, the first in ``binding``, to one closure. Raise ``UnsupportedKernel``."""
    state, first, guard = binding.state, binding.instruction, binding.guard
    form = product_form(first)
    if form is None:
        raise unsupported(first)
    fragments = (form.c, form.a, form.b, form.c)
    operands = [[elements_of(it.operands[place]) for it in instructions] for place in range(len(fragments))]
    for parts, fragment in zip(operands, fragments, strict=True):
        if any(len(elements) != fragment.registers for elements in parts):
            raise unsupported(first)
    width = form.c.width
    targets = [element for elements in operands[0] for element in elements]
    if not all(isinstance(it, Register) and state.rows.get(it.name, ("",))[0] == width for it in targets):
        raise unsupported(first)
    rows = np.array([state.rows[it.name][1] for it in targets if isinstance(it, Register)])
    file = state.files[width]
    d, of_a, of_b = form.types
    a, b, c = (
        _reader(binding, parts, fragment, STORED[kind])
        for parts, fragment, kind in zip(operands[1:], fragments[1:], (of_a, of_b, d), strict=True)
    )
    present = whole_warps(state, first, guard, "matrices")
    every = np.arange(state.lanes // WARP)
    tally = state.tally if d in FLOAT_SUMS else None
    sums = _words(binding, [element for elements in operands[3] for element in elements], width)

    def run() -> None:
        warps = present()
        if warps is None:
            return
        if tally:
            found = tally.add(sums().view(STORED[d]), form.a.cols).view(file.dtype)
            words = found.reshape(len(rows), -1, WARP)[:, warps]
        else:
            result = form.c.spread(multiply(form.types, a(warps), b(warps), c(warps), saturate=form.saturate))
            words = result.reshape(len(instructions), -1, *result.shape[1:]).swapaxes(1, 2)  # by instruction, register
        if isinstance(warps, slice):
            file[rows] = words.reshape(len(rows), -1)
        else:
            file.reshape(len(file), -1, WARP)[rows[:, None], every[warps]] = words.reshape(len(rows), -1, WARP)

    return run


def _words(binding: Binding, elements: Sequence[Operand | None], width: int) -> Callable[[], Array]:
    """Return a function that reads registers of all lanes: (element, lane)."""
    state = binding.state
    names = [it.name for it in elements if isinstance(it, Register)]
    places = [state.rows.get(name, ("", 0)) for name in names]
    if len(names) == len(elements) and all(it[0] == width for it in places):
        file, rows = state.files[width], np.array([row for _, row in places])
        return lambda: np.asarray(file[rows])
    code = f"b{width}"
    words = [np.broadcast_to(binding.value(element, code), (state.lanes,)) for element in elements]
    return lambda: np.stack(words)


def _reader(
    binding: Binding, parts: Sequence[tuple[Operand | None, ...]], fragment: Fragment, stored: str
) -> Callable[[Any], Array]:
    """Return a function that reads the factors ``parts`` of some warps: (part and warp, row, column)."""
    different = list(dict.fromkeys(parts))
    order = [different.index(it) for it in parts]
    read = _words(binding, [element for it in different for element in it], fragment.width)
    repeats = len(different) < len(parts)

    def matrices(warps: Any) -> Array:
        registers = read().reshape(len(different), fragment.registers, -1, WARP)[:, :, warps].swapaxes(1, 2)
        found = fragment.matrix(np.ascontiguousarray(registers).reshape(-1, fragment.registers, WARP), stored)
        if repeats:
            found = found.reshape(len(different), -1, *found.shape[1:])[order].reshape(-1, *found.shape[1:])
        return found

    return matrices
