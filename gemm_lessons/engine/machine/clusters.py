"""``st.async`` and ``red.async``: stores to shared memory of another block, which report to an mbarrier of that block.

The value is stored at once, but the report happens only when no lane can run without it, as for a bulk copy
(``bulk.py``). Source: NVIDIA, "PTX ISA" 9.0, 9.7.9.12 and 9.7.13.7.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemm_lessons.engine.machine.atomics import Updates, operation_of
from gemm_lessons.engine.machine.bulk import BulkSide, report
from gemm_lessons.engine.machine.mbarriers import OPERATION_EFFECT, barriers_of
from gemm_lessons.engine.machine.transfers import Binding, view_for
from gemm_lessons.engine.ptx.cfg import unsupported
from gemm_lessons.engine.ptx.records import SIZES, elements_of

STORED = frozenset("b32 b64 u32 u64 s32 s64 f32 f64".split())
REDUCED = {
    **dict.fromkeys(("inc", "dec"), ("u32",)), **dict.fromkeys(("min", "max"), ("u32", "s32")),
    "add": ("u32", "s32", "u64"), **dict.fromkeys(("and", "or", "xor"), ("b32",)),
}  # fmt: skip
SILENT = frozenset("async weak relaxed cluster shared__cluster mbarrier__complete_tx__bytes".split())


def bind_async_store(binding: Binding) -> Callable[[], None]:
    """Bind ``st.async`` or ``red.async``. Raise ``UnsupportedKernel``."""
    state, instruction = binding.state, binding.instruction
    *words, kind = instruction.modifiers
    reduces = instruction.opcode == "red"
    rest = [word for word in words if word not in SILENT]
    if not {"shared__cluster", "mbarrier__complete_tx__bytes"} <= set(words):
        raise unsupported(instruction)
    target, given, barrier = instruction.operands
    sources = [binding.value(element, kind) for element in elements_of(given)] if kind in SIZES else []
    updates = None
    if reduces:
        operation = operation_of(rest[0], kind) if len(rest) == 1 and kind in REDUCED.get(rest[0], ()) else None
        if operation is None:
            raise unsupported(instruction)
        updates = Updates(rest[0], kind, operation)
    elif kind not in STORED or rest not in ([], [f"v{len(sources)}"]):
        raise unsupported(instruction)
    size = SIZES[kind] * len(sources)
    address = binding.addresses(target)
    barriers = barriers_of(binding, barrier, OPERATION_EFFECT, traced=False)
    side = BulkSide(binding, "shared", "copy")
    view = view_for(state.shared, kind, 1)
    chosen = binding.lanes()

    def run() -> None:
        lanes = state.lane_numbers(chosen())
        if not lanes.size:
            return
        places = address(lanes)
        side.aligned(places, lanes, size, size)
        first = side.place_shared(places, lanes, size) // SIZES[kind]
        for number, source in enumerate(sources):
            values = np.broadcast_to(source if source.ndim == 0 else source[lanes], lanes.shape)
            if updates is None:
                view[first + number] = values
            else:
                updates.apply(view, first, [values])
        report(state, barriers, lanes, barriers.of(lanes), size)

    return run
