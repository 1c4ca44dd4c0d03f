"""``mma``: a warp multiplies two small matrices that its lanes hold together, and adds a third."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.matrices import whole_warps
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import unsupported
from gemm_lessons.engine.ptx.fragments import Fragment, product_form
from gemm_lessons.engine.ptx.records import Operand, Register, elements_of
from gemm_lessons.engine.semantics.matrix_products import STORED, multiply

Array = NDArray[Any]


def bind_product(binding: Binding) -> Callable[[], None]:
    """Bind ``mma.sync.aligned``. Raise ``UnsupportedKernel`` for an unknown form."""
    state, instruction, guard, value = binding.state, binding.instruction, binding.guard, binding.value
    form = product_form(instruction)
    if form is None:
        raise unsupported(instruction)
    targets, *sources = (elements_of(operand) for operand in instruction.operands)
    for elements, fragment in zip((targets, *sources), (form.c, form.a, form.b, form.c), strict=True):
        if len(elements) != fragment.registers:
            raise unsupported(instruction)
    rows = []
    for element in targets:
        if not isinstance(element, Register) or state.rows.get(element.name, ("",))[0] != form.c.width:
            raise unsupported(instruction)
        rows.append(state.row(element.name, f"b{form.c.width}").reshape(-1, WARP))

    def reader(elements: tuple[Operand | None, ...], fragment: Fragment, kind: str) -> Callable[[Any], Array]:
        words = [value(element, f"b{fragment.width}") for element in elements]
        whole = [word if word.ndim else np.broadcast_to(word, (state.lanes,)) for word in words]
        registers = [lanes.reshape(-1, WARP) for lanes in whole]
        return lambda warps: fragment.matrix([register[warps] for register in registers], STORED[kind])

    a, b, c = (
        reader(elements, fragment, kind)
        for elements, fragment, kind in zip(
            sources, (form.a, form.b, form.c), (form.types[1], form.types[2], form.types[0]), strict=True
        )
    )

    present = whole_warps(state, instruction, guard, "matrices")

    def run() -> None:
        warps = present()
        if warps is None:
            return
        result = multiply(form.types, a(warps), b(warps), c(warps), saturate=form.saturate)
        for register, found in zip(rows, form.c.spread(result).swapaxes(0, 1), strict=True):
            register[warps] = found

    return run
