"""Right sums in the wrong places: C transposed or shifted; rows, columns or elements with the values of others.

For every element, the module searches its value in the right answer. Rows and columns may also be a multiple of the
right ones: a multiple of 0 means that nothing was added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gemm_lessons.judging.factors import QUARTER, squares_transposed, with_quarters_exchanged
from gemm_lessons.judging.named_sentence import Facts, Lines
from gemm_lessons.judging.wrong_answer import Array, Made, Transformation, Wrong, nearest, numbers

MOST_SHIFT = 32
FEW = 100  # elements that are looked up one by one
KNOWN = 0.9  # share of elements whose value is found in the right answer; some values are alike
MOST = 1 << 20  # elements to look up, within a second
GROUPS = (8, 4, 2, 16, 32, 64)  # lines of a thread, a vector access or an iteration
# By axis: what C has along it, the factor with the same extent, and the block's index.
ROWS, COLUMNS = 0, 1
AXES = (("row", "A", "blockIdx.y"), ("column", "B", "blockIdx.x"))
SHIFTED = (("up", "down"), ("left", "right"))


def transposed(it: Wrong) -> Iterator[Made]:
    """Yield C^T in the memory of C."""
    if it.is_plain:
        yield it.moved(lambda right: right.T.reshape(right.shape))


def fragments_transposed(it: Wrong) -> Iterator[Made]:
    """Yield C with each 16 x 16 transposed."""
    if it.is_plain:
        yield from _moved(it, squares_transposed)


def quarters_transposed(it: Wrong) -> Iterator[Made]:
    """Yield C with each 8 x 8 transposed, where factors are 16-bit numbers: a fragment of mma.sync, stored by hand."""
    if it.is_plain and it.has_halves:
        yield from _moved(it, lambda matrix: squares_transposed(matrix, QUARTER))


def quarters_exchanged(it: Wrong) -> Iterator[Made]:
    """Yield C with the upper right and the lower left quarter of each 16 x 16 exchanged, where factors are 16-bit."""
    if it.is_plain and it.has_halves:
        yield from _moved(it, with_quarters_exchanged)


def _moved(it: Wrong, move: Callable[[Array], Array | None]) -> Iterator[Made]:
    """Yield the moved answer, if its shape allows that."""
    blocks, allowed = move(it.problem.reference), move(it.problem.tolerance)
    if blocks is not None and allowed is not None:
        yield Made(blocks, allowed)


def guarded_by_another_size(axis: int) -> Transformation:
    """Return a transformation that sets all rows or columns from another size of the matrices on to 0. Facts: ``axis``,
    ``factor``, ``size`` and ``length``, and the size that ``should`` be."""

    def made(it: Wrong) -> Iterator[Made]:
        sizes = {"M": it.problem.shape.m, "N": it.problem.shape.n, "K": it.problem.shape.k}
        should = "MN"[axis]
        for size in "KNM":
            length = sizes[size]
            if length < sizes[should] and it.is_plain:
                answer = it.problem.reference.copy()
                answer[_along(axis, slice(length, None))] = 0
                noun, factor, _ = AXES[axis]
                facts = {"axis": noun, "factor": factor, "size": size, "length": length, "should": should}
                yield Made(answer, it.problem.tolerance, facts)

    return made


def gathered(axis: int) -> Transformation:
    """Return a transformation that adds the sums of some rows or columns to those of others and sets them to 0: of each
    ``count`` groups of lines, only the first has sums. Facts: ``axis``, ``count``, ``pieces``."""

    def made(it: Wrong) -> Iterator[Made]:
        empty = np.asarray(~it.got.any(1 - axis))
        if not it.has_two_factors or empty.all() or not empty.any():
            return
        size = int(empty.argmax())  # lines in front of the first empty ones
        more = np.flatnonzero(~empty[size:])
        group = size + int(more[0]) if more.size else len(empty)
        if not size or group % size or len(empty) % group or (empty != (np.arange(len(empty)) % group >= size)).any():
            return

        def moved(lines: Array) -> Array:
            pieces = np.moveaxis(lines, axis, 0).reshape(-1, group // size, size, lines.shape[1 - axis])
            there = np.zeros_like(pieces)
            there[:, 0] = pieces.sum(1)
            return np.moveaxis(there.reshape(len(empty), -1), 0, axis)

        noun = f"{AXES[axis][0]}s"
        yield it.moved(moved, axis=noun, pieces=noun if size == 1 else f"pieces of {size} {noun}", count=group // size)

    return made


def shifted(axis: int) -> Transformation:
    """Return a shift of all rows or columns. Facts: ``axis``, ``way``, ``distance``; ``here`` holds ``there``'s."""

    def made(it: Wrong) -> Iterator[Made]:
        size = it.got.shape[axis]
        for distance in range(1, min(MOST_SHIFT, size // 2) + 1):
            for shift in (distance, -distance):  # line i has the right values of line i + shift
                here = slice(max(0, -shift), min(size, size - shift))
                there = _along(axis, slice(here.start + shift, here.stop + shift))
                facts = {
                    "axis": AXES[axis][0],
                    "way": SHIFTED[axis][shift < 0],
                    "distance": distance,
                    "here": here.start,
                    "there": here.start + shift,
                }
                yield Made(it.problem.reference[there], it.problem.tolerance[there], facts, _along(axis, here))

    return made


def _along(axis: int, lines: slice) -> tuple[slice, ...]:
    return (lines,) if axis == ROWS else (slice(None), lines)


def multiples(axis: int, none: bool) -> Callable[[Wrong], Facts | None]:
    """Return a search for rows (or columns) that are a multiple of the right ones; or, with ``none``, all 0. Facts:
    ``axis``, ``lines`` and ``times``."""

    def searched(it: Wrong) -> Facts | None:
        counted = it.once(_multiples, axis)
        if counted is None or none == counted[counted != 1].any():
            return None
        return {**_lines(counted != 1, axis, it), "times": int(counted[counted != 1][0])}

    return searched


def _multiples(it: Wrong, axis: int) -> Array | None:
    """Return how often each row (or column) was counted, if that explains every element."""
    if not it.may_be_fitted:
        return None
    right, across = it.problem.reference, 1 - axis
    counted = np.rint((it.got * right).sum(across) / np.square(right).sum(across))
    factor = np.expand_dims(counted, across)
    return counted if it.is_nearly(right * factor, it.problem.tolerance * np.abs(factor)) else None


def _lines(chosen: Array, axis: int, it: Wrong) -> Facts:
    """Return these rows or columns as facts; those of one tile, where every whole tile has the same ones."""
    tile = (it.tiles.rows, it.tiles.cols)[axis]
    in_tile = bool(
        1 < tile < chosen.size and not chosen.size % tile and (chosen == np.resize(chosen[:tile], chosen.size)).all()
    )
    lines = Lines(numbers(np.flatnonzero(chosen[:tile] if in_tile else chosen)), in_tile)
    return {"axis": AXES[axis][0], "lines": lines}


def repeated(axis: int, cause: Callable[[Array, int], Facts | None]) -> Callable[[Wrong], Facts | None]:
    """Return a search for rows (or columns) that hold the sums of others, from ``cause``. Facts: ``axis``, ``lines``,
    the ``factor`` that has the same rows, ``index`` of the block, and as an example line ``here``, with the sums of
    ``there``."""

    def searched(it: Wrong) -> Facts | None:
        if (sources := it.once(_sources)) is None:
            return None
        source, tile = sources[axis], (it.tiles.rows, it.tiles.cols)[axis]
        wrong = np.flatnonzero(away := source != np.arange(source.size))
        if not wrong.size or (facts := cause(source, tile)) is None:
            return None
        _, factor, index = AXES[axis]
        example = {"here": int(wrong[0]), "there": int(source[wrong[0]])}
        return {**_lines(away, axis, it), "factor": factor, "index": index, **example, **facts}

    return searched


def first_block(source: Array, tile: int) -> Facts | None:
    """Recognise blocks that all have the lines of the first block."""
    return {} if 1 < tile < source.size and (source == np.arange(source.size) % tile).all() else None


def first_of_a_group(source: Array, tile: int) -> Facts | None:
    """Recognise groups whose lines equal the first. Facts: the ``size`` of a group, and the first that ``repeat``."""
    place = np.arange(source.size)
    size = next((size for size in GROUPS if (source == place - place % size).all()), None)
    if size is None:
        return None
    return {"size": size, "repeat": numbers(np.flatnonzero(source != place)[: size - 1])}


def so_far_before(source: Array, tile: int) -> Facts | None:
    """Recognise lines that all have the sums of the lines this far ``before``."""
    place = np.arange(source.size)
    by = np.unique((place - source)[source != place])
    return {"before": int(by[0])} if by.size == 1 and by[0] > 0 else None


def anywhere(source: Array, tile: int) -> Facts:
    """Return any other source as an example."""
    return {}


def _sources(it: Wrong) -> tuple[Array, Array] | None:
    """Return, for each row and each column, the line whose sums it holds, if that explains every element."""
    if (found := it.once(_places)) is None:
        return None
    cols = it.got.shape[1]
    from_row = np.array([_most(line) for line in found // cols])
    from_col = np.array([_most(line) for line in (found % cols).T])
    if (from_row < 0).any() or (from_col < 0).any():
        return None
    return (from_row, from_col) if it.agrees_moved(lambda right: right[np.ix_(from_row, from_col)]) else None


def _places(it: Wrong) -> Array | None:
    """Return the place of each element's value in the right answer, (M, N), counted along its rows; -1 if it is
    nowhere. Return None if many values are nowhere."""
    if not it.may_be_fitted or it.got.size > MOST:
        return None
    right, got, tolerance = it.problem.reference.ravel(), it.got.ravel(), it.problem.tolerance.ravel()
    place = np.where(np.abs(got - right) <= tolerance, np.arange(right.size), nearest(got, right))
    found = np.where(np.abs(got - right[place]) <= tolerance[place], place, -1).reshape(it.got.shape)
    return found if (found >= 0).mean() >= KNOWN else None


def _most(line: Array) -> int:
    """Return the most frequent number of a line, ignoring negative ones."""
    return int(np.bincount(line[line >= 0]).argmax()) if (line >= 0).any() else -1


def exchanged(within: int | None) -> Callable[[Wrong], Facts | None]:
    """Return a search for exchanged elements, such as ``here`` and ``there``, ``within`` a row or column or not."""

    def searched(it: Wrong) -> Facts | None:
        facts = it.once(_exchanged)
        return facts if facts is not None and facts["within"] == within else None

    return searched


def _exchanged(it: Wrong) -> Facts | None:
    if (places := it.once(_places)) is None:
        return None
    found, cols = places.flatten(), it.got.shape[1]
    place = np.arange(found.size)
    hidden = np.flatnonzero(found < 0)
    if hidden.size > FEW:
        return None
    found[hidden] = [_partner(int(here), it) for here in hidden]
    if (found < 0).any() or not it.agrees_moved(lambda right: right.ravel()[found].reshape(right.shape)):
        return None
    away = found != place
    if (found[found] == place)[away].mean() < KNOWN:
        return None
    here = int(np.flatnonzero(away & (found[found] == place))[0])
    moved = zip(divmod(place[away], cols), divmod(found[away], cols), strict=True)
    within = next((axis for axis, (mine, theirs) in enumerate(moved) if (mine == theirs).mean() > KNOWN), None)
    return {"here": divmod(here, cols), "there": divmod(int(found[here]), cols), "within": within}


def _partner(here: int, it: Wrong) -> int:
    """Return the element that this one may have been exchanged with, where a sum closer in size hid it; -1 for none."""
    right, got, tolerance = it.problem.reference.ravel(), it.got.ravel(), it.problem.tolerance.ravel()
    theirs = np.abs(got[here] - right) <= tolerance
    mine = np.abs(got - right[here]) <= tolerance[here]
    return int(np.argmax(theirs & mine)) if (theirs & mine).any() else -1
