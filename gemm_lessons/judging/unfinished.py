"""The progress of an unfinished kernel, from its memory after one K tile.

The kernel has run as written, without optimisation, on a problem of one block and one K tile. At the end ``As`` should
hold all of A, ``Bs`` all of B, and the accumulators all of C. Inputs are random and flat, so a number identifies its
element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from gemm_lessons.engine.records import bits, dataclass
from gemm_lessons.engine.simulator import UNWRITTEN, FinalMemory
from gemm_lessons.gemm import Problem, Trial
from gemm_lessons.judging.named_sentence import NamedSentence
from gemm_lessons.judging.wrong_answer import Array, nearest

ALIKE = 0.98  # share of numbers that must be in their expected place: a few may be (nearly) the same
EXCHANGED = 0.05  # share of C in an array of the block above which the sums have passed through it, over the tiles
WARP = 32
SENTENCES: Mapping[str, str] = {
    "nothing": "Nothing is in {array} yet.",
    "tile": "{array} holds the tile of {matrix}{order:order}.",
    "part": "{array} holds {count:,} of the {size:,} numbers of {matrix}'s tile; {matrix}[{row}, {col}] is missing.",
    "neither": "{array} holds numbers of neither A nor B.",
    "one_number": "{array} repeats one number of {matrix}.",
    "numbers": "{array} holds numbers of {matrix}.",
    "filled_in_part": "{array} is filled in part: {count:,} of {size:,}, with numbers of {matrix}.",
    "right_sums": "{array:accumulator} holds the right sums.",
    "shared_sums": "{array:accumulator} holds right sums for only {count:,} of the {size:,} elements: "
    "{by_warp:by warp}.",
    "nothing_stored": "Nothing is stored in C yet.",
    "no_loads": "The counters have no loads of {lines:source lines}: what is loaded there does not reach C yet, so the "
    "compiler leaves it out (dead code).",
}


@dataclass(frozen=True)
class Unfinished:
    """``done`` of ``todos`` TODOs are written."""

    done: int
    todos: int


def can_tell(problem: Problem) -> bool:
    """Tell whether memory can be interpreted: C = A B of 32-bit numbers."""
    data = problem.data
    kinds = {layout.element.name for name, layout in problem.layouts.items() if name in "ABC"}
    plain = data.formula.is_product and set(data.formula.names) == {"A", "B"}
    return plain and kinds == {"float32"} and set("ABC") <= set(problem.layouts)


def contents(
    problem: Problem, trial: Trial, remains: FinalMemory, names: Mapping[tuple[str, str, int], str]
) -> tuple[NamedSentence, ...]:
    """Describe memory, array by array. ``names``: of its arrays, by space, PTX variable and byte offset in it."""
    tiles = {name: bits(problem.layouts[name].matrix(problem.arrays[name])) for name in "AB"}
    said = list[NamedSentence | None]()
    for variable, words in remains.shared.items():
        if np.isin(bits(trial.answer), words[words != 0]).mean() < EXCHANGED:  # zeros are in both anyway
            said.append(_shared(names.get(("shared", variable, 0), variable), words, tiles))
    own = list(_own_arrays(remains, names))
    sums = _sums(problem, own, remains)
    said += [sums] if sums else [_fragment(name, words, tiles) for name, words in own]
    layout = problem.answer
    before = bits(layout.matrix(problem.arrays[layout.name]))
    if remains.fault is None and (bits(trial.answer) == before.reshape(trial.answer.shape)).all():
        said.append(sentence("nothing_stored"))
    return tuple(it for it in said if it is not None)


def sentence(name: str, **facts: Any) -> NamedSentence:
    """Return one of ``SENTENCES``."""
    return NamedSentence(name, SENTENCES[name], facts)


def _shared(name: str, words: Array, tiles: Mapping[str, Array]) -> NamedSentence | None:
    if not len(words):
        return None
    if (words == UNWRITTEN).all():
        return sentence("nothing", array=name)
    present = {matrix: np.isin(tile, words) for matrix, tile in tiles.items()}
    matrix = max(present, key=lambda it: present[it].mean())
    there, tile = present[matrix], tiles[matrix]
    if there.all():
        return sentence("tile", array=name, matrix=matrix, order=_order(words, tile))
    if not there.any():
        return sentence("neither", array=name)
    row, col = map(int, np.argwhere(~there)[0])
    return sentence("part", array=name, matrix=matrix, count=int(there.sum()), size=tile.size, row=row, col=col)


def _order(words: Array, tile: Array) -> str:
    """Return how the tile is stored in the array: by "row" or by "column", if evenly spaced; else "its own"."""
    rows, cols = tile.shape
    if min(rows, cols) < 2:
        return ""
    first, below, beside = (int(np.flatnonzero(words == it)[0]) for it in (tile[0, 0], tile[1, 0], tile[0, 1]))
    place = first + np.add.outer(np.arange(rows) * (below - first), np.arange(cols) * (beside - first))
    if place.min() < 0 or place.max() >= len(words) or (words[place] == tile).mean() < ALIKE:
        return "its own"
    return "row" if beside - first == 1 else "column" if below - first == 1 else ""


def _own_arrays(remains: FinalMemory, names: Mapping[tuple[str, str, int], str]) -> Iterator[tuple[str, Array]]:
    """Yield name and words (threads, n) of each array of a thread; an array ends where the next one begins."""
    for variable, words in remains.own.items():
        starts = sorted(offset for space, owner, offset in names if (space, owner) == ("own", variable))
        for start, end in pairwise([*starts, words.shape[1] * 4]):
            if start % 4 == 0 and end > start:
                yield names["own", variable, start], words[:, start // 4 : end // 4]


def _fragment(name: str, words: Array, tiles: Mapping[str, Array]) -> NamedSentence | None:
    """Describe an array of a thread that holds numbers of A or of B."""
    written = words != UNWRITTEN
    for matrix, tile in tiles.items():
        ours = np.isin(words, tile) & written
        if ours.all():
            if words.shape[1] > 1 and (words == words[:, :1]).all():
                return sentence("one_number", array=name, matrix=matrix)
            return sentence("numbers", array=name, matrix=matrix)
        if ours.any() and (ours | ~written).all():
            return sentence("filled_in_part", array=name, matrix=matrix, count=int(ours[0].sum()), size=words.shape[1])
    return None


def _sums(problem: Problem, own: list[tuple[str, Array]], remains: FinalMemory) -> NamedSentence | None:
    """Describe accumulators that hold right sums: an array of each thread, or a register."""
    registers = [("", words[:, None]) for words in remains.registers]
    for name, words in (*((name, _without_padding(words)) for name, words in own), *registers):
        values = words.view(np.float32).astype(np.float64)
        place = _place(values, problem) if np.isfinite(values).all() else np.array([-1])
        if (place < 0).any():
            continue
        different = np.unique(place).size
        if different >= ALIKE * problem.reference.size:
            return sentence("right_sums", array=name)
        if 1 < different < place.size:
            size, by_warp = problem.reference.size, _are_by_warp(place)
            return sentence("shared_sums", array=name, count=different, size=size, by_warp=by_warp)
    return None


def _without_padding(words: Array) -> Array:
    """Leave out the words after an array that align the next one: no thread has written them."""
    written = np.flatnonzero((words != UNWRITTEN).any(axis=0))
    return np.ascontiguousarray(words[:, : written[-1] + 1 if written.size else 0])


def _are_by_warp(place: Array) -> bool:
    """Tell whether each warp computes its own elements, and all of its lanes the same ones."""
    if len(place) % WARP or not (place.reshape(-1, WARP, place.shape[1]) == place[::WARP, None]).all():
        return False
    return int(np.unique(place[::WARP], axis=0).shape[0]) * WARP == len(place)


def _place(values: Array, problem: Problem) -> Array:
    """Return the place of each value in the right answer; -1 for nowhere."""
    right = problem.reference.ravel()
    place = nearest(values, right)
    near = np.abs(values - right[place]) <= problem.tolerance.ravel()[place]
    return np.where(near, place, -1)
