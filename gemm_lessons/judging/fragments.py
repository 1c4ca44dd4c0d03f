"""Wrong answers of tensor cores: sums in 16 bits, and fragments whose rows and columns are exchanged."""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.judging.wrong_answer import Array, Pattern, Wrong

SIDE = 16  # rows and columns of a fragment
QUARTER = 8  # rows and columns of the matrices that ldmatrix loads
HALF = ELEMENTS["float16"]
NEAR = 2.0**14  # times what is allowed in float32: more than sums in half are off by
EXCHANGED = (
    "was read with rows and columns exchanged. wmma::row_major and wmma::col_major in a fragment's type say how the "
    "matrix lies in memory, not how it is used"
)


def half_sums(it: Wrong) -> Pattern | None:
    """Every element is a number of 16 bits, and near the right one."""
    if it.problem.answer.element.precision <= HALF.precision or not np.isfinite(it.got).all():
        return None
    near = np.abs(it.got - it.problem.reference) <= NEAR * it.problem.tolerance
    with np.errstate(over="ignore"):
        exact = HALF.decode(HALF.encode(it.got)) == it.got
    if not (near & exact).all():
        return None
    return Pattern(
        "half_sums",
        "every element of C is near the right one, and a number of 16 bits: the sums were made in half. Its 11 bits "
        "hold a factor, and not the sum of many products; make the accumulator float.",
    )


def turned(it: Wrong) -> Pattern | None:
    """Each 16 x 16 of A, B or C is transposed."""
    a, b = it.factors
    for name, matrix in (("A", a), ("B", b)):
        blocks = _turned(matrix)
        if blocks is not None and it.agrees(it.product(*((blocks, b) if name == "A" else (a, blocks)))):
            return Pattern("fragments_turned", f"each {SIDE} x {SIDE} of {name} {EXCHANGED}.")
    blocks, allowed = _turned(it.problem.reference), _turned(it.problem.tolerance)
    if blocks is not None and allowed is not None and it.is_nearly(blocks, allowed):
        return Pattern(
            "fragments_turned",
            f"each {SIDE} x {SIDE} of C is transposed: store_matrix_sync was told wmma::mem_col_major, and C is "
            "row-major.",
        )
    return None


def quarters(it: Wrong) -> Pattern | None:
    """The 8 x 8 matrices that ldmatrix loads: each transposed, or in another order. Of numbers of 16 bits."""
    a, b = it.factors
    if it.problem.data.factors[0].element.size != 2:
        return None
    for name, matrix in (("A", a), ("B", b)):
        turned, exchanged = _turned(matrix, QUARTER), _exchanged(matrix)
        for other, kind in ((turned, "turned"), (exchanged, "exchanged")):
            if other is not None and it.agrees(it.product(*((other, b) if name == "A" else (a, other)))):
                return Pattern(f"quarters_{kind}", QUARTERS[kind, name])
    return None


IN_ORDER = "in each 16 x 16 of {0} the second and the third of the four 8 x 8 matrices have changed places. The second "
QUARTERS = {
    ("turned", "A"): "each 8 x 8 of A is transposed. A has two k of one row side by side, as mma.sync wants them: that "
    "is plain ldmatrix.",
    ("turned", "B"): "each 8 x 8 of B is transposed. mma.sync wants two k of one column in a register, and memory has "
    "two columns of one k side by side: ldmatrix_trans exchanges them.",
    ("exchanged", "A"): IN_ORDER.format("A") + "one, whose rows lanes 8 to 15 hand over, lies 8 rows below the first; "
    "the third 8 k further.",
    ("exchanged", "B"): IN_ORDER.format("B") + "one, whose rows lanes 8 to 15 hand over, lies 8 k below the first; the "
    "third has the next 8 columns.",
}  # fmt: skip


def _turned(matrix: Array, side: int = SIDE) -> Array | None:
    rows, cols = matrix.shape
    if rows % side or cols % side:
        return None
    blocks = matrix.reshape(rows // side, side, cols // side, side)
    return blocks.transpose(0, 3, 2, 1).reshape(rows, cols)


def _exchanged(matrix: Array) -> Array | None:
    """The upper right quarter of each 16 x 16 in the place of the lower left one, and the other way round."""
    rows, cols = matrix.shape
    if rows % SIDE or cols % SIDE:
        return None
    blocks = matrix.reshape(rows // SIDE, 2, QUARTER, cols // SIDE, 2, QUARTER)
    return blocks.transpose(0, 4, 2, 3, 1, 5).reshape(rows, cols)
