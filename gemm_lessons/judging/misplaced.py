"""Wrong answers that are right sums in the wrong places: whole rows, whole columns, or elements that changed places.

Of every element it is asked where its value stands in the right answer. Rows and columns may also be a multiple of
the right ones: nothing was added to a row that is 0.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.judging.wrong_answer import Array, Pattern, Wrong, few

FEW = 100  # elements that are looked up one by one
KNOWN = 0.9  # share of elements whose value stands in the right answer; some values are alike
MOST = 1 << 20  # elements that are looked up, in a second
GROUPS = (8, 4, 2, 16, 32, 64)  # rows of a thread, of a vector, of a round


def multiples(it: Wrong) -> Pattern | None:
    """Rows (or columns) that are a multiple of the right ones; 0 of them, as a rule."""
    if not it.may_be_fitted:
        return None
    right = it.problem.reference
    for axis, noun, tile in ((0, "row", it.tiles.rows), (1, "column", it.tiles.cols)):
        across = 1 - axis
        counted = np.rint((it.got * right).sum(across) / np.square(right).sum(across))
        factor = np.expand_dims(counted, across)
        if it.is_nearly(right * factor, it.problem.tolerance * np.abs(factor)):
            wrong = counted != 1
            where = _lines(wrong, noun, tile)
            if counted[wrong].any():
                times = f"{counted[wrong][0]:.0f} times the right sums"
                return Pattern(f"{noun}s_again", f"{where} are {times}: which loop visits them again?")
            advice = f"nothing was added to them. Does the loop over a thread's {noun}s reach its end?"
            return Pattern(f"{noun}s_zero", f"{where} are 0: {advice}")
    return None


def _lines(chosen: Array, noun: str, tile: int) -> str:
    """``rows 7, 15 of each tile``, where every whole tile has the same ones."""
    if 1 < tile < chosen.size and not chosen.size % tile and (chosen == np.resize(chosen[:tile], chosen.size)).all():
        return f"{noun}s {few(np.flatnonzero(chosen[:tile]))} of each block tile"
    return f"{noun}s {few(np.flatnonzero(chosen))}"


def moved(it: Wrong) -> Pattern | None:
    """Right sums that stand in the place of others."""
    if not it.may_be_fitted or it.got.size > MOST:
        return None
    found = _places(it)
    if (found >= 0).mean() < KNOWN:
        return None
    cols = it.got.shape[1]
    from_row = np.array([_most(line) for line in found // cols])
    from_col = np.array([_most(line) for line in (found % cols).T])
    known = (from_row >= 0).all() and (from_col >= 0).all()
    if known and it.agrees_moved(lambda right: right[np.ix_(from_row, from_col)]):
        return _copied(from_row, from_col, it)
    return _exchanged(found.ravel(), it)


def _places(it: Wrong) -> Array:
    """(M, N): where in the right answer, counted along its rows, the value of each element stands; -1 if nowhere."""
    right, got, tolerance = it.problem.reference.ravel(), it.got.ravel(), it.problem.tolerance.ravel()
    order = np.argsort(right)
    after = np.clip(np.searchsorted(right[order], got), 1, right.size - 1)
    below, above = order[after - 1], order[after]
    nearest = np.where(np.abs(got - right[below]) <= np.abs(got - right[above]), below, above)
    own = np.arange(right.size)
    nearest = np.where(np.abs(got - right) <= tolerance, own, nearest)
    return np.where(np.abs(got - right[nearest]) <= tolerance[nearest], nearest, -1).reshape(it.got.shape)


def _most(line: Array) -> int:
    """The most frequent number of a line, without those that are below 0."""
    return int(np.bincount(line[line >= 0]).argmax()) if (line >= 0).any() else -1


def _copied(from_row: Array, from_col: Array, it: Wrong) -> Pattern:
    names, said = [], []
    for source, noun, name, tile, block in (
        (from_row, "row", "A", it.tiles.rows, "blockIdx.y"),
        (from_col, "column", "B", it.tiles.cols, "blockIdx.x"),
    ):
        wrong = np.flatnonzero(source != np.arange(source.size))
        if wrong.size:
            names.append(f"{noun}s_repeated")
            said.append(_of_lines(source, wrong, noun, name, tile, block))
    return Pattern(names[0], " ".join(said))


def _of_lines(source: Array, wrong: Array, noun: str, name: str, tile: int, block: str) -> str:
    place = np.arange(source.size)
    index = f"{noun} index of {name}"
    if 1 < tile < source.size and (source == place % tile).all():
        return (
            f"every block computed the {noun}s of the first one: {noun} {wrong[0]} holds the sums of {noun} "
            f"{source[wrong[0]]}. The {index} lacks {block}."
        )
    for size in GROUPS:
        if (source == place - place % size).all():
            return (
                f"{noun}s {few(wrong[: size - 1])} repeat {noun} {source[wrong[0]]}, and so on in every {size} "
                f"{noun}s: a thread uses one element of {name} for all of them. The {index} lacks the term "
                f"that counts the thread's {noun}s."
            )
    shown = _lines(source != place, noun, tile)
    by = np.unique(place[wrong] - source[wrong])
    if by.size == 1 and by[0] > 0:
        return f"{shown} hold the sums of the {noun}s {by[0]} before: the {index} lacks a term of {by[0]}."
    return (
        f"{shown} hold the sums of other {noun}s, {noun} {wrong[0]} those of {noun} {source[wrong[0]]}: follow the "
        f"{index} from the copy to the product, and that of C in the store."
    )


def _exchanged(found: Array, it: Wrong) -> Pattern | None:
    """Two by two elements changed places."""
    cols = it.got.shape[1]
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
    one, other = (f"C[{at // cols}, {at % cols}]" for at in (here, int(found[here])))
    return Pattern(
        "exchanged",
        f"the sums are right, but elements have changed places in pairs: {one} holds what belongs in {other}, and the "
        "other way round. Row and column are exchanged inside each thread's patch: acc[i][j] is a_frag[i] times "
        "b_frag[j], and belongs in row i, column j of the patch. Look at the product and at the store.",
    )


def _partner(here: int, it: Wrong) -> int:
    """With which element this one may have changed places, where a sum that is nearer in size hid it; -1: with none."""
    right, got, tolerance = it.problem.reference.ravel(), it.got.ravel(), it.problem.tolerance.ravel()
    theirs = np.abs(got[here] - right) <= tolerance
    mine = np.abs(got - right[here]) <= tolerance[here]
    return int(np.argmax(theirs & mine)) if (theirs & mine).any() else -1
