"""Which elements of C are wrong: unwritten ones, or the same part of every block tile. These are transformations for
``pattern.wrong`` and ``pattern.mostly``, which compare the set of wrong elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemm_lessons.judging.named_sentence import TilePart
from gemm_lessons.judging.wrong_answer import MOSTLY, Array, Made, Wrong, numbers

FEW_POSITIONS = 0.25  # share of a tile's positions above which "the same few positions" explains nothing
LEAST_PART = 1 / 256  # of a tile: a smaller part may be right by chance
ALL, NONE = np.array(True), np.array(False)


def all_untouched(it: Wrong) -> Iterator[Made]:
    """Yield all elements, where none was written."""
    if it.untouched.all():
        yield Made(ALL)


def untouched(it: Wrong) -> Iterator[Made]:
    """Yield the unwritten elements."""
    if not it.untouched.any():
        return
    count = int((it.wrong & it.untouched).sum())
    where = next((made.facts["where"] for made in same_positions(it) if it.is_wrong_in(made)), None)
    where = where or next((made.facts["where"] for made in same_part(it) if it.is_wrong_in(made, MOSTLY)), None)
    where = where or _described(it.untouched)._replace(tile=())
    yield Made(NONE, facts={"count": count, "total": it.wrong.size, "where": where}, at=~it.untouched)


def untouched_from_a_size(it: Wrong) -> Iterator[Made]:
    """Yield the rows or columns from another size of the matrices on, where they are unwritten; for an answer without
    products, the elements from there on. Facts: ``axis``, ``size`` and ``length``, and the size that ``should`` be."""
    shape, total = it.problem.shape, it.wrong.size
    sizes = {"N": shape.n, "M": shape.m, "K": shape.k}
    counted = np.arange(total).reshape(it.wrong.shape)
    axes = [("row", "M", counted // shape.n, shape.m), ("column", "N", counted % shape.n, shape.n)]
    if not it.problem.data.multiplies:
        axes = [("element", "M * N", counted, total)]
        del sizes["K"]
    for axis, should, index, end in axes:
        for size, length in sizes.items():
            if length < end and it.untouched[index >= length].all():
                facts = {"axis": axis, "size": size, "length": length, "last": end - 1, "should": should}
                yield Made(index >= length, facts={**facts, "count": int(it.untouched.sum()), "total": total})


def untouched_and_wrong(it: Wrong) -> Iterator[Made]:
    """Yield the wrong elements, where some were not written and others hold wrong values."""
    nan = np.isnan(it.got)
    if nan.any() and (nan == it.untouched).all() and (it.wrong & ~nan).any():
        yield Made(ALL, facts={"count": int(nan.sum())}, at=nan)


def no_numbers(it: Wrong) -> Iterator[Made]:
    """Yield the elements that are NaN, with facts about what may have been read."""
    nan, layouts = np.isnan(it.got), it.problem.layouts.values()
    if nan.any():
        scratch = tuple(here.name for here in layouts if here.role == "scratch")
        gaps = tuple(here.name for here in layouts if here.is_read and here.leading > here.length)
        yield Made(ALL, facts={"count": int(nan.sum()), "scratch": scratch, "gaps": gaps}, at=nan)


def ragged_edge(it: Wrong) -> Iterator[Made]:
    """Yield the elements of partial block tiles."""
    (m, n), tiles = it.got.shape, it.tiles
    row, col = m // tiles.rows * tiles.rows, n // tiles.cols * tiles.cols
    if row and col and (row, col) != (m, n):
        yield Made(NONE, facts={"row": row, "col": col, "tile": (tiles.rows, tiles.cols)}, at=np.s_[:row, :col])


def same_positions(it: Wrong) -> Iterator[Made]:
    """Yield the few elements of each whole block tile that are wrong in the first."""
    by_tile = _whole_tiles(it)
    size = it.tiles.rows * it.tiles.cols
    if size == 1 or by_tile.size < 2 * size or not 0 < (first := by_tile[0, 0]).mean() <= FEW_POSITIONS:
        return
    rows, cols = np.flatnonzero(first.any(1)), np.flatnonzero(first.any(0))
    yield _in_tiles(it, first, TilePart(numbers(rows), numbers(cols), first.shape))


def same_part(it: Wrong) -> Iterator[Made]:
    """Yield the elements that are wrong in at least half of the whole block tiles, if they are many."""
    by_tile = _whole_tiles(it)
    if it.tiles.rows * it.tiles.cols == 1 or not by_tile.size:
        return
    part = by_tile.mean((0, 1)) >= 0.5
    if LEAST_PART <= part.mean() <= 1 - LEAST_PART:
        yield _in_tiles(it, part, _described(part))


def _described(wrong: Array) -> TilePart:
    """Describe the wrong rows and columns; or the right ones; or, if neither is a rectangle, the first row."""
    for which, part in (("", wrong), ("all but", ~wrong)):
        rows, cols = part.any(1), part.any(0)
        if (part == np.outer(rows, cols)).all():
            row_numbers, col_numbers = (() if of.all() else numbers(np.flatnonzero(of)) for of in (rows, cols))
            return TilePart(row_numbers, col_numbers, part.shape, which)
    row = int(np.flatnonzero(wrong.any(1))[0])
    return TilePart((row,), numbers(np.flatnonzero(wrong[row])), wrong.shape, "such as")


def _whole_tiles(it: Wrong) -> Array:
    """Return ``wrong`` by whole block tile: (tile row, tile column, row, column)."""
    (m, n), tiles = it.got.shape, it.tiles
    rows, cols = m // tiles.rows, n // tiles.cols
    whole = it.wrong[: rows * tiles.rows, : cols * tiles.cols]
    return whole.reshape(rows, tiles.rows, cols, tiles.cols).transpose(0, 2, 1, 3)


def _in_tiles(it: Wrong, part: Array, where: TilePart) -> Made:
    """Mark ``part`` (rows, columns of a tile) of each whole tile."""
    (m, n), (rows, cols) = it.got.shape, part.shape
    answer = np.tile(part, (m // rows, n // cols))
    k = it.problem.shape.k
    facts = {"where": where, "past": k if k % it.tiles.depth else 0}
    return Made(answer, facts=facts, at=np.s_[: len(answer), : answer.shape[1]])
