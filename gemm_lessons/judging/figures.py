"""The numbers of a run's table that tell a lesson's story: those that lesson.toml names, or the run's own choice.

Evaluated like gates, over the counters of the counting shape, the resources, the sizes and the tile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gemm_lessons.course import Figure, Lesson
from gemm_lessons.engine.arguments import Expression, Number
from gemm_lessons.judging.evidence import Built, Checked
from gemm_lessons.judging.gates import counted_names, uncounted

PER_MMA = Figure(
    "instructions per mma", Expression("warp_instructions / ((hmma + imma + dmma) * min(1, tensor_products))")
)
PER_FMA = Figure("instructions per multiply-add", Expression("32 * warp_instructions / (ffma + dfma)"))
SECTORS = Figure("global sectors loaded", Expression("global_load_sectors"))


def figures_of(lesson: Lesson, kernels: Sequence[Checked]) -> tuple[Figure, ...]:
    """Return the lesson's figures. A lesson that names none has sectors, and instructions per product of the unit that
    one of the ``kernels`` uses: tensor cores or multiply-adds."""
    on_tensor_cores = any(kernel.instructions_per_mma is not None for kernel in kernels)
    return lesson.figures or (SECTORS, PER_MMA if on_tensor_cores else PER_FMA)


def value_of(figure: Figure, built: Built, checked: Checked, sizes: Mapping[str, Number]) -> float | None:
    """Return a figure of one kernel; None where a counter is missing, or nothing is there to divide by."""
    counters = checked.counters
    if counters is None or not uncounted(counters).keys().isdisjoint(figure.value.names):
        return None
    value = float(figure.value.value({**counted_names(built, counters), **sizes}))
    return value if math.isfinite(value) else None
