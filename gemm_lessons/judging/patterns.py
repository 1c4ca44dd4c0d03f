"""Wrong answers that have a name: which mistake gives exactly this C?

    sums.py: of the wrong products    misplaced.py: right sums, wrong places    epilogues.py: after the product
    widths.py: in too few bits        fragments.py: of tensor cores
    here: the rest, and the order of all

Each rule looks at a wrong answer and says what it recognises, or None. Most rules compute what C would be after a
certain mistake, and recognise the mistake only if every element agrees within tolerance; so a rule never guesses. The
first rule that recognises something wins: the most telling come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gemm_lessons.gemm.data import BufferLayout
from gemm_lessons.judging import fragments, sums, widths
from gemm_lessons.judging import misplaced as places
from gemm_lessons.judging.epilogues import epilogue
from gemm_lessons.judging.wrong_answer import Array, Pattern, Wrong, few

FEW_POSITIONS = 0.25  # share of a tile's positions above which "the same few positions" is no explanation any more
MOST_SHIFT = 32
LEAST_PART = 1 / 256  # of a tile: that few may be right by chance
MOSTLY = 0.95  # share of a part's elements that must be wrong: few wrong sums are right by chance


def _never_written(it: Wrong) -> Pattern | None:
    unwritten = it.wrong & it.untouched
    if unwritten.all():
        return Pattern(
            "never_written",
            "no element of C was written. Does every thread reach the line that stores its result, and is the index "
            "in C made of the row and column that this thread owns?",
        )
    if not unwritten.any() or (it.wrong & ~it.untouched).any():
        return None
    where = _where_in_tiles(it) or _part_of_tiles(it) or "see the map for where"
    return Pattern(
        "partly_written",
        f"{int(unwritten.sum())} of {unwritten.size} elements of C were never written ({where}); those that were are "
        "right. Either no thread owns these elements, or the guard before the store shuts their threads out.",
    )


def _nan(it: Wrong) -> Pattern | None:
    nan = np.isnan(it.got)
    if not nan.any():
        return None
    if (nan == it.untouched).all() and (it.wrong & ~nan).any():
        return Pattern(
            "misplaced",
            f"{int(nan.sum())} elements of C were never written, and others hold wrong sums. Results that are stored "
            "in the wrong place do both: are the row and column of the store those that the sum was computed for?",
        )
    scratch = [layout.name for layout in it.problem.layouts.values() if layout.role == "scratch"]
    between = "".join(f" {name} where nobody stored what is added," for name in scratch)
    if gaps := [here.name for here in it.problem.layouts.values() if here.is_read and here.leading > here.length]:
        between += f" {' or '.join(gaps)} behind the end of a line, before the next one begins,"
    which = "1 element is" if nan.sum() == 1 else f"{int(nan.sum())} elements are"
    return Pattern(
        "nan",
        f"{which} NaN. The inputs hold none, and C starts as NaN: so the sum read memory that was not set: C itself,"
        f"{between} shared memory before it was filled, or a thread's own variable or array (all four floats of a "
        "float4?) that has no value yet.",
    )


def _all_zero(it: Wrong) -> Pattern | None:
    if (it.got != 0).any():
        return None
    return Pattern(
        "all_zero",
        "every element is 0: C is written, but nothing was added to the accumulator. Is the sum along K filled in?",
        vague=True,
    )


def _transposed(it: Wrong) -> Pattern | None:
    a, b = it.factors
    if it.agrees_moved(lambda right: right.T.reshape(right.shape)):
        return Pattern(
            "transposed",
            "C is transposed. In row-major order element (row, col) of C is C[row * N + col]; rows go with y (M), "
            "columns with x (N).",
        )
    for name, cause, other in (
        ("a_transposed", "A was read column by column: element (row, k) of A is A[row * K + k]", (_across(a), b)),
        ("b_transposed", "B was read column by column: element (k, col) of B is B[k * N + col]", (a, _across(b))),
    ):
        if it.agrees(it.product(*other)):
            tiles = "The matrices are row-major, and so are their tiles: As[row][k], Bs[k][col]."
            return Pattern(name, f"{cause}. {tiles}")
    return _swapped(it)


def _swapped(it: Wrong) -> Pattern | None:
    """Row and column changed places in an index, the stride stayed: a(k, row) for a(row, k)."""
    a, b = it.factors
    a_swapped, b_swapped = (_exchanged(it.problem.layouts[name], it.problem.arrays[name]) for name in "AB")
    for name, cause, left, right in (
        ("ab_swapped", "A was read at (k, row) and B at (col, k)", a_swapped, b_swapped),
        ("a_swapped", "A was read at (k, row)", a_swapped, b),
        ("b_swapped", "B was read at (col, k)", a, b_swapped),
    ):
        if left is not None and right is not None and it.agrees(it.product(left, right)):
            return Pattern(
                name,
                f"{cause}: row and column changed places. The row comes first: element (row, k) of A, element (k, col) "
                "of B. On other shapes this also reads outside the matrix.",
            )
    return None


def _strides(it: Wrong) -> Pattern | None:
    """The row was multiplied by another size than the length of a row."""
    a, b = it.factors
    for name, at, other in (("A", "row, k", "MN"), ("B", "k, col", "MK")):
        layout = it.problem.layouts[name]
        for size in other:
            stride = int(it.problem.shape.names[size])
            read = _with_rows_of(stride, layout, it.problem.arrays[name])
            if read is None or not it.agrees(it.product(read, b) if name == "A" else it.product(a, read)):
                continue
            first, second = at.split(", ")
            length = "K" if name == "A" else "N"
            return Pattern(
                f"{name.lower()}_stride",
                f"{name} was read as if its rows were {size} = {stride} long: element ({at}) of {name} is "
                f"{name}[{first} * {length} + {second}], for a row of {name} has {length} elements.",
            )
    return None


def _with_rows_of(length: int, layout: BufferLayout, stored: Array) -> Array | None:
    """What is found where rows are taken to be this long; None where they are, or where that is outside the array."""
    row, col = np.indices((layout.rows, layout.cols))
    place = row * length + col
    if length == layout.leading or place.max() >= stored.size:
        return None
    return np.asarray(layout.element.decode(stored).ravel()[place])


def _exchanged(layout: BufferLayout, stored: Array) -> Array | None:
    """What (col, row) finds where (row, col) was meant; None where that lies outside the array."""
    row, col = np.indices((layout.rows, layout.cols))
    place = col * layout.leading + row
    return None if place.max() >= stored.size else layout.element.decode(stored).ravel()[place]


def _across(matrix: Array) -> Array:
    """The same memory read in column-major order."""
    return matrix.ravel().reshape(matrix.shape[::-1]).T


def _k_tiles(it: Wrong) -> Pattern | None:
    a, b = it.factors
    tiles = it.k_tiles
    depth = it.tiles.depth
    if len(tiles) < 2 or depth == 1:
        return None
    first, last = tiles[0], tiles[-1]
    if it.agrees(it.product(a[:, first], b[first])):
        return Pattern(
            "first_k_tile",
            f"only the first K tile (k = 0 to {first.stop - 1}) was summed. Does the loop over k0 step by {depth} up "
            "to K, and does each pass load its own tile, at k0?",
        )
    if it.agrees(it.product(a[:, last], b[last])):
        return Pattern(
            "last_k_tile",
            f"only the last K tile (k = {last.start} to {last.stop - 1}) was summed. Is the accumulator set to 0 "
            "inside the loop over k0? It belongs before it.",
        )
    for name, sign, cause in (
        ("k_tile_missing", -1.0, "is missing from every sum"),
        ("k_tile_twice", 1.0, "was counted twice in every sum"),
    ):
        for number in range(len(tiles)):
            tile = tiles[number]
            weights = np.ones(len(b))
            weights[tile] += sign
            if it.agrees(it.product(a * weights, b)):
                which = "first" if number == 0 else "last" if tile == last else _ordinal(number + 1)
                advice = (
                    "Look at the condition that ends the loop over k0."
                    if tile == last
                    else "Look at what is loaded before the loop and in its first pass."
                )
                return Pattern(name, f"the {which} K tile (k = {tile.start} to {tile.stop - 1}) {cause}. {advice}")
    return None


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def _same_k_tile(it: Wrong) -> Pattern | None:
    """Every pass of the loop used the first tile of A, of B, or of both."""
    a, b = it.factors
    k, depth = it.problem.shape.k, it.tiles.depth
    if len(it.k_tiles) < 2 or k % depth:
        return None
    stuck_a, stuck_b = np.tile(a[:, :depth], k // depth), np.tile(b[:depth].T, k // depth).T
    for name, left, right in (("A and of B", stuck_a, stuck_b), ("A", stuck_a, b), ("B", a, stuck_b)):
        if it.agrees(it.product(left, right)):
            return Pattern(
                "same_k_tile",
                f"every pass of the loop over k0 used the first tile of {name}.",
            )
    return None


def _shifted(it: Wrong) -> Pattern | None:
    for name, got, expected, tolerance, axis in (
        ("rows_shifted", it.got, it.problem.reference, it.problem.tolerance, "row"),
        ("cols_shifted", it.got.T, it.problem.reference.T, it.problem.tolerance.T, "column"),
    ):
        size = len(got)
        for shift in _shifts(size):
            # got[i] is the right value of line i + shift
            here = slice(max(0, -shift), min(size, size - shift))
            there = slice(here.start + shift, here.stop + shift)
            if (np.abs(got[here] - expected[there]) <= tolerance[there]).all():
                way = {"row": ("up", "down"), "column": ("left", "right")}[axis][shift < 0]
                return Pattern(
                    name,
                    f"every {axis} of C stands {abs(shift)} too far {way}: {axis} {here.start} holds the right values "
                    f"of {axis} {there.start}. Compare the index that reads with the index that writes.",
                )
    return None


def _shifts(size: int) -> Iterator[int]:
    for distance in range(1, min(MOST_SHIFT, size // 2) + 1):
        yield from (distance, -distance)


def _edges(it: Wrong) -> Pattern | None:
    (m, n), tiles = it.got.shape, it.tiles
    rows, cols = m // tiles.rows * tiles.rows, n // tiles.cols * tiles.cols
    inner = it.wrong[:rows, :cols]
    if (rows == m and cols == n) or not inner.size or inner.any():
        return None
    return Pattern(
        "edges",
        f"only the ragged edge is wrong (rows from {rows}, columns from {cols}): whole {tiles.rows} x {tiles.cols} "
        "tiles are right. Look at the guards: what does a thread load, and store, when its row or column is outside?",
        vague=True,
    )


def _same_positions(it: Wrong) -> Pattern | None:
    where = _where_in_tiles(it)
    if where is None:
        return None
    return Pattern(
        "same_positions",
        f"the same few elements are wrong in every block tile ({where}): not the tile's place in C is wrong, but what "
        "one thread does inside it, or when: a missing __syncthreads() or a wrong thread index.",
        vague=True,
    )


def _same_part(it: Wrong) -> Pattern | None:
    where = _part_of_tiles(it)
    if where is None:
        return None
    return Pattern(
        "same_part",
        f"the same part of every block tile is wrong ({where}), so blockIdx and k0 are not to blame. An index inside "
        "the tile is: in the copy, in what a thread reads of the tiles, or in the store.",
        vague=True,
    )


def _part_of_tiles(it: Wrong) -> str | None:
    """Which rows and columns are wrong, if it is the same part of every whole tile; or which are right; or, where they
    are no rectangle, the first row."""
    tiles = it.tiles
    by_tile = _whole_tiles(it)
    if tiles.rows * tiles.cols == 1 or not by_tile.size:
        return None
    share = by_tile.mean((0, 1))
    wrong = share >= 0.5
    if (share[~wrong] > 0).any() or not LEAST_PART <= wrong.mean() <= 1 - LEAST_PART or share[wrong].mean() < MOSTLY:
        return None
    size = f"of each {tiles.rows} x {tiles.cols} tile"
    for only, part in (("", wrong), ("all but ", ~wrong)):
        rows, cols = part.any(1), part.any(0)
        if (part == np.outer(rows, cols)).all():
            lines = [_few(noun, np.flatnonzero(of)) for noun, of in (("row", rows), ("column", cols)) if not of.all()]
            return f"{only}{', '.join(lines)} {size}"
    row = int(np.flatnonzero(wrong.any(1))[0])
    return f"such as row {row}, {_few('column', np.flatnonzero(wrong[row]))} {size}"


def _whole_tiles(it: Wrong) -> Array:
    """``wrong`` by block tile, without the ragged ones: (tile row, tile column, row, column)."""
    (m, n), tiles = it.got.shape, it.tiles
    rows, cols = m // tiles.rows, n // tiles.cols
    whole = it.wrong[: rows * tiles.rows, : cols * tiles.cols]
    return whole.reshape(rows, tiles.rows, cols, tiles.cols).transpose(0, 2, 1, 3)


def _where_in_tiles(it: Wrong) -> str | None:
    """Which rows and columns of the tile are wrong, if it is the same part of every tile and a small one."""
    tiles = it.tiles
    by_tile = _whole_tiles(it)
    if tiles.rows * tiles.cols == 1 or by_tile.size < 2 * tiles.rows * tiles.cols:
        return None
    first = by_tile[0, 0]
    if not (by_tile == first).all() or not 0 < first.mean() <= FEW_POSITIONS:
        return None
    wrong_rows, wrong_cols = np.flatnonzero(first.any(1)), np.flatnonzero(first.any(0))
    return f"{_few('row', wrong_rows)}, {_few('column', wrong_cols)} of each {tiles.rows} x {tiles.cols} tile"


def _few(noun: str, numbers: Array) -> str:
    return f"{noun} {numbers[0]}" if len(numbers) == 1 else f"{noun}s {few(numbers)}"


PLAIN_ONLY = (
    widths.without_sign,
    widths.not_turned,
    widths.cut,
    _transposed,
    _strides,
    fragments.turned,
    fragments.quarters,
    _k_tiles,
    _same_k_tile,
)  # they speak of A and B
RULES: Sequence[Callable[[Wrong], Pattern | None]] = (
    _never_written,
    _nan,
    _all_zero,
    fragments.half_sums,
    widths.rounded,
    widths.digits,
    widths.whole,
    widths.wrapped,
    *PLAIN_ONLY,
    epilogue,
    sums.weights,
    sums.partners,
    widths.bytes_of_words,
    places.multiples,
    _shifted,
    places.moved,
    _edges,
    _same_positions,
    _same_part,
)


def recognise(it: Wrong) -> Pattern | None:
    """The first rule's verdict on a wrong answer, or None when no rule knows it."""
    for rule in RULES:
        if (it.is_plain or rule not in PLAIN_ONLY) and (pattern := rule(it)):
            return pattern
    return None
