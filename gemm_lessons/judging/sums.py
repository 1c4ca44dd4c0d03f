"""Sums of the wrong products: how often each k was counted, and which k of A was multiplied by which k of B.

    C = sum over k of w[k] A[:, k] B[k, :]       counted: a loop that starts late, ends early, assigns or subtracts
    C = sum over k of A[:, f[k]] B[g[k], :]      wrong_k: an index of A or of B that lacks a term

Both are linear, so a least-squares fit finds them. The fit is accepted only if whole numbers then give every element of
C. Rows and columns are first scaled to similar magnitude; otherwise the largest ones would decide the fit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemm_lessons.engine.records import dataclass
from gemm_lessons.judging.named_sentence import Facts
from gemm_lessons.judging.wrong_answer import Array, Wrong, numbers

MOST_K = 1024  # a fit takes K ** 3 operations
FIRM = 2  # equations for each unknown
GROUPS = (4, 2, 8, 16, 32, 64)  # sizes of vectors, thread tiles and iterations, counted by a term of an index


@dataclass(frozen=True)
class Counts:
    """How often each k was counted: in the whole sum, or, with ``in_tile``, in a K tile if all tiles are the same."""

    whole: Array
    part: Array
    in_tile: bool
    other: Array  # the k of ``part`` that were not counted exactly once

    @property
    def missing(self) -> Array:
        """Return the same k if none of them was counted at all; else empty."""
        return self.other if not self.part[self.other].any() else self.other[:0]


def counted(way: Callable[[Counts, Wrong], Facts | None]) -> Callable[[Wrong], Facts | None]:
    """Return a search for products that were counted another number of times, in this ``way``. Facts: ``in_tile``,
    ``size`` of what is summed, and the facts of the way."""

    def searched(it: Wrong) -> Facts | None:
        counts = it.once(_counts)
        if counts is None or (facts := way(counts, it)) is None:
            return None
        return {"in_tile": counts.in_tile, "size": counts.part.size, **facts}

    return searched


def _counts(it: Wrong) -> Counts | None:
    """Return how often each k was counted, if that is the same for every element of C."""
    if not it.may_be_fitted or it.problem.shape.k > MOST_K or it.got.size < FIRM * it.problem.shape.k:
        return None
    a, b = it.factors
    left, got, right = it.levelled
    fitted = np.linalg.lstsq((left.T @ left) * (right @ right.T), ((left.T @ got) * right).sum(1), rcond=None)[0]
    whole, depth = np.rint(fitted), it.tiles.depth
    if not it.agrees(it.product(a * whole, b)):
        return None
    in_tile = bool(1 < depth < whole.size and (whole == np.resize(whole[:depth], whole.size)).all())
    part = whole[:depth] if in_tile else whole
    return Counts(whole, part, in_tile, np.flatnonzero(part != 1))


def subtracted(counts: Counts, it: Wrong) -> Facts | None:
    """Recognise a sum from which every product is subtracted."""
    return {} if (counts.whole == -1).all() else None


def again(counts: Counts, it: Wrong) -> Facts | None:
    """Recognise a sum that counts every product several ``times``."""
    return {"times": int(counts.whole[0])} if (counts.whole == counts.whole[0]).all() else None


def only_the_last(counts: Counts, it: Wrong) -> Facts | None:
    """Recognise a sum of the last product alone."""
    only = counts.whole[-1] == 1 and not counts.whole[:-1].any()
    return {"k": counts.whole.size - 1} if only else None


def only_the_last_few(counts: Counts, it: Wrong) -> Facts | None:
    """Recognise a sum of the last products, as many as one instruction or iteration adds: ``k``, ``kept``."""
    kept = np.setdiff1d(np.arange(counts.whole.size), np.flatnonzero(counts.whole == 0))
    only = kept.size in GROUPS and 2 * kept.size <= counts.whole.size and kept[0] == counts.whole.size - kept.size
    return {"kept": kept.size, "k": numbers(kept)} if only and (counts.whole[kept] == 1).all() else None


def without_the_first(counts: Counts, it: Wrong, one: bool) -> Facts | None:
    """Recognise a sum without the first product, or without the first ``count``."""
    missing = counts.missing
    if not missing.size or missing[-1] != missing.size - 1 or one != (missing.size == 1):
        return None
    return {"count": missing.size, "k": numbers(missing)}


def without_the_last(counts: Counts, it: Wrong, one: bool) -> Facts | None:
    """Recognise a sum without the last product, or several, from ``end`` on. ``called``: names of that number."""
    missing = counts.missing
    if not missing.size or missing[0] != counts.part.size - missing.size or one != (missing.size == 1):
        return None
    end = int(missing[0])
    return {"end": end, "called": it.called(end, "" if counts.in_tile else "MNK")}


def one_in_several(counts: Counts, it: Wrong) -> Facts | None:
    """Recognise a sum of one product in ``step``: ``k``."""
    kept = np.setdiff1d(np.arange(counts.part.size), counts.missing)
    steps = np.unique(np.diff(kept))
    if not counts.missing.size or steps.size != 1 or kept[0] >= steps[0]:
        return None
    return {"step": int(steps[0]), "k": numbers(kept)}


def without_some(counts: Counts, it: Wrong) -> Facts | None:
    """Recognise a sum without the products of ``k``."""
    return {"k": numbers(counts.missing)} if counts.missing.size else None


def doubled(counts: Counts, it: Wrong) -> Facts | None:
    """Recognise a sum that was doubled whenever a few products were added."""
    step = int((counts.part == 1).sum())
    doublings = np.arange(counts.part.size // max(step, 1))[::-1]
    found = doublings.size > 2 and np.array_equal(counts.part, np.repeat(2.0**doublings, step))
    return {} if found else None


def other_times(counts: Counts, it: Wrong) -> Facts:
    """Return each number of ``times`` with its k."""
    found = np.unique(counts.part[counts.other])
    return {
        "times": tuple((counts.in_tile, int(times), numbers(np.flatnonzero(counts.part == times))) for times in found)
    }


def wrong_k(name: str, way: Callable[[Array, int], Facts | None]) -> Callable[[Wrong], Facts | None]:
    """Return a search for products of the right A and B but of different k: factor ``name``, here ``of``, was read at
    another k. Facts: such as where ``k`` was meant, at ``found``."""

    def searched(it: Wrong) -> Facts | None:
        found = it.once(_partners, name)
        if found is None or (facts := way(found, it.tiles.depth)) is None:
            return None
        k = int(np.flatnonzero(found != np.arange(found.size))[0])
        return {"of": name, "k": k, "found": int(found[k]), **facts}

    return searched


def _partners(it: Wrong, name: str) -> Array | None:
    """Return, for each k, the k at which this factor was read."""
    m, n, k = it.problem.shape.m, it.problem.shape.n, it.problem.shape.k
    if not it.may_be_fitted or k > MOST_K or k > (m if name == "B" else n):
        return None
    a, b = it.factors
    left, got, right = it.levelled
    if name == "B":
        found = _nearest(_fitted(left, got), right)
        return found if it.agrees(it.product(a, b[found])) else None
    found = _nearest(_fitted(right.T, got.T), left.T)
    return found if it.agrees(it.product(a[:, found], b)) else None


def _fitted(known: Array, got: Array) -> Array:
    """Return the least-squares solution X (K, n) of ``known`` (m, K) @ X = ``got``.

    QR takes a fifth of the time of an SVD, which is needed only where columns depend on each other.
    """
    q, r = np.linalg.qr(known)
    diagonal = np.abs(np.diagonal(r))
    if not diagonal.min() > 1e-9 * diagonal.max():
        return np.linalg.lstsq(known, got, rcond=None)[0]
    return np.linalg.solve(r, q.T @ got)


def _nearest(fitted: Array, lines: Array) -> Array:
    """Return which of ``lines`` (K, n) each fitted line is."""
    return np.asarray((fitted @ lines.T - np.square(lines).sum(1) / 2).argmax(1))


def first_of_the_tile(found: Array, depth: int) -> Facts | None:
    """Recognise K tiles in which every k is the first."""
    return {} if (found == _tile(found, depth)).all() else None


def first_of_a_group(found: Array, depth: int) -> Facts | None:
    """Recognise groups of ``size`` in which every k is the first."""
    k = np.arange(found.size)
    size = next((size for size in GROUPS if (found == k - k % size).all()), None)
    return None if size is None else {"size": size}


def first_of_the_tile_again(found: Array, depth: int) -> Facts | None:
    """Recognise K tiles in which the first ``size`` k repeat."""
    tile = _tile(found, depth)
    inside = np.arange(found.size) - tile
    size = next((size for size in GROUPS if (found == tile + inside % size).all()), None)
    return None if size is None else {"size": size}


def anywhere(found: Array, depth: int) -> Facts:
    """Return any other k as an example."""
    return {}


def _tile(found: Array, depth: int) -> Array:
    """Return the k at which each one's K tile starts."""
    k = np.arange(found.size)
    return k - k % depth if depth > 1 else 0 * k
