"""Wrong answers that are sums of the wrong products: how often was each k counted, and which k of A met which of B?

    C = sum over k of w[k] A[:, k] B[k, :]       weights: a loop that starts late, ends early, assigns or subtracts
    C = sum over k of A[:, f[k]] B[g[k], :]      partners: an index of A or of B that lacks a term

Both are linear, so a least-squares fit finds them; it counts only if whole numbers then give every element of C. What
is fitted has rows and columns that are about as large as each other: else the largest would be all that counts.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.judging.wrong_answer import Array, Pattern, Wrong, few

MOST_K = 1024  # a fit takes K ** 3 steps
FIRM = 2  # equations for each unknown
GROUPS = (4, 2, 8, 16, 32, 64)  # sizes of vectors, thread tiles and rounds that a term of an index counts
TIMES = {0: "missing", 2: "counted twice", -1: "subtracted"}


def weights(it: Wrong) -> Pattern | None:
    """How often each k was counted, where that is the same for every element of C."""
    if not it.may_be_fitted or it.problem.shape.k > MOST_K or it.got.size < FIRM * it.problem.shape.k:
        return None
    a, b = it.factors
    left, got, right = it.levelled
    fitted = np.linalg.lstsq((left.T @ left) * (right @ right.T), ((left.T @ got) * right).sum(1), rcond=None)[0]
    counted = np.rint(fitted)
    if not it.agrees(it.product(a * counted, b)):
        return None
    name, explanation = _of_all(counted) or _of_a_part(counted, it)
    return Pattern(name, explanation)


def _of_all(counted: Array) -> tuple[str, str] | None:
    """Every k the same, or nothing but the last."""
    k, each = counted.size, int(counted[0])
    if (counted == each).all():
        if each == -1:
            return "subtracted", "C has the wrong sign: products are subtracted (-=) that are to be added (+=)."
        return "counted_again", f"every product was counted {each} times: which loop around the sum runs too often?"
    if counted[-1] == 1 and not counted[:-1].any():
        return "assigned", (
            f"only the last product of every sum is left (k = {k - 1}): the accumulator is assigned (=) where the "
            "product is to be added (+=)."
        )
    return None


def _of_a_part(counted: Array, it: Wrong) -> tuple[str, str]:
    """Some k are counted and others not: the same ones in each K tile, or of the whole sum."""
    depth, whole, noun = it.tiles.depth, "every sum", "k"
    if 1 < depth < counted.size and (counted == np.resize(counted[:depth], counted.size)).all():
        counted, whole, noun = counted[:depth], "each K tile", "k of the tile"
    missing = np.flatnonzero(counted != 1)
    if not counted[missing].any():
        return _missing(missing, counted.size, whole, noun, it)
    often = {int(times): np.flatnonzero(counted == times) for times in np.unique(counted[missing])}
    told = "; ".join(f"{noun} = {few(where)}: {TIMES.get(n, f'counted {n} times')}" for n, where in often.items())
    return "weights", f"not every product of {whole} counts once ({told}). Which turns of the loop over k do that?"


def _missing(missing: Array, size: int, whole: str, noun: str, it: Wrong) -> tuple[str, str]:
    count = missing.size
    if missing[-1] == count - 1:  # the first ones
        which = f"the first product of {whole} is" if count == 1 else f"the first {count} products of {whole} are"
        return "late_start", f"{which} missing ({noun} = {few(missing)}): does the loop over k start at 0?"
    if missing[0] == size - count:  # the last ones
        end = int(missing[0])
        if count == 1:
            return "early_end", (
                f"the last product of {whole} is missing ({noun} = {end}): the loop over k ends one turn too early."
            )
        called = it.called(end, "MNK" if whole == "every sum" else "")
        return "wrong_bound", (
            f"of {whole} only the products with {noun} below {end} are there, of {size}: the loop over k ends at "
            f"{end}{f' ({called})' if called else ''}."
        )
    kept = np.setdiff1d(np.arange(size), missing)
    steps = np.unique(np.diff(kept))
    if steps.size == 1 and kept[0] < steps[0]:
        return "skipping", (
            f"of {whole} only one product in {steps[0]} is there ({noun} = {few(kept)}): the loop over k takes steps "
            f"of {steps[0]}, so each turn has {steps[0]} products to add."
        )
    return "missing", f"products of {whole} are missing ({noun} = {few(missing)}): which turns of the loop skip them?"


def partners(it: Wrong) -> Pattern | None:
    """Each product took its number of A and its number of B, but not of the same k."""
    if not it.may_be_fitted or it.problem.shape.k > MOST_K:
        return None
    a, b = it.factors
    left, got, right = it.levelled
    m, n, k = it.problem.shape.m, it.problem.shape.n, it.problem.shape.k
    if m >= k:
        of_b = _nearest(np.linalg.lstsq(left, got, rcond=None)[0], right)
        if it.agrees(it.product(a, b[of_b])):
            return Pattern("wrong_k_of_b", _met(of_b, "B", it))
    if n >= k:
        of_a = _nearest(np.linalg.lstsq(right.T, got.T, rcond=None)[0], left.T)
        if it.agrees(it.product(a[:, of_a], b)):
            return Pattern("wrong_k_of_a", _met(of_a, "A", it))
    return None


def _nearest(fitted: Array, lines: Array) -> Array:
    """Which of ``lines`` (K, n) each fitted line is."""
    return np.asarray((fitted @ lines.T - np.square(lines).sum(1) / 2).argmax(1))


def _met(found: Array, name: str, it: Wrong) -> str:
    """``found[k]``: at which k ``name`` was read where k was meant."""
    k, depth = np.arange(found.size), it.tiles.depth
    at = np.flatnonzero(found != k)[0]
    said = f"products took {name} from another k: where k = {at} was meant, it was read at k = {found[at]}."
    tile, inside = (k - k % depth, k % depth) if depth > 1 else (0 * k, k)
    if (found == tile).all():
        return f"{said} Only the first k of each K tile is used: the index of {name} lacks k."
    for size in GROUPS:
        if (found == k - k % size).all():
            return (
                f"{said} Of every {size} k only the first is used: the index of {name} lacks the term that counts "
                f"within the {size}."
            )
        if (found == tile + inside % size).all():
            return (
                f"{said} In each K tile the first {size} k are used again and again: the index of {name} lacks the "
                f"term that goes on in steps of {size}."
            )
    return f"{said} Follow k through the index of {name} in the copy and in what is read of the tile."
