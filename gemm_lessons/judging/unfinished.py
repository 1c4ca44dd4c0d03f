"""How far has the author of an unfinished kernel come? What its memory holds after one K tile, in sentences.

The kernel has run as it is written, nothing of it optimised away, on a problem that is one block and one K tile: so
``As`` should hold all of A in the end, ``Bs`` all of B, and the accumulators all of C. Inputs are random and
flat, so a number says which element it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from gemm_lessons.engine.records.elements import bits
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.simulator.final_memory import UNWRITTEN, Remains
from gemm_lessons.gemm.problem import Problem, Trial
from gemm_lessons.judging.wrong_answer import Array

ALIKE = 0.98  # share of numbers that must be where they are expected: a few may be (nearly) the same
EXCHANGED = 0.05  # share of C in an array of the block from which on the sums have passed through it, over the tiles
WARP = 32


@dataclass(frozen=True)
class Unfinished:
    """``done`` of ``todos`` TODOs are written."""

    done: int
    todos: int


def can_tell(problem: Problem) -> bool:
    """Whether memory can be read: C = A B of 32-bit numbers."""
    data = problem.data
    kinds = {layout.element.name for name, layout in problem.layouts.items() if name in "ABC"}
    plain = data.formula.is_product and set(data.formula.names) == {"A", "B"}
    return plain and kinds == {"float32"} and set("ABC") <= set(problem.layouts)


def contents(
    problem: Problem, trial: Trial, remains: Remains, names: Mapping[tuple[str, str, int], str]
) -> tuple[str, ...]:
    """What memory holds, array by array. ``names``: of shared arrays and of a thread's own, by space, variable of the
    PTX and byte offset in it."""
    tiles = {name: bits(problem.layouts[name].matrix(problem.arrays[name])) for name in "AB"}
    said = []
    for variable, words in remains.shared.items():
        if np.isin(bits(trial.answer), words[words != 0]).mean() < EXCHANGED:  # zeros are in both without passing
            said.append(_shared(names.get(("shared", variable, 0), variable), words, tiles))
    own = list(_own_arrays(remains, names))
    sums = _sums(problem, own, remains)
    said += [sums] if sums else [_fragment(name, words, tiles) for name, words in own]
    layout = problem.answer
    before = bits(layout.matrix(problem.arrays[layout.name]))
    if remains.fault is None and (bits(trial.answer) == before.reshape(trial.answer.shape)).all():
        said.append("Nothing is stored in C yet.")
    return tuple(sentence for sentence in said if sentence)


def _shared(name: str, words: Array, tiles: Mapping[str, Array]) -> str:
    if not len(words):
        return ""
    if (words == UNWRITTEN).all():
        return f"Nothing is in {name} yet."
    present = {matrix: np.isin(tile, words) for matrix, tile in tiles.items()}
    matrix = max(present, key=lambda it: present[it].mean())
    there, tile = present[matrix], tiles[matrix]
    if there.all():
        return f"{name} holds the tile of {matrix}{_layout(words, tile)}."
    if not there.any():
        return f"What {name} holds is of neither A nor B."
    row, col = np.argwhere(~there)[0]
    part = f"{there.sum():,} of the {tile.size:,} numbers of {matrix}'s tile"
    return f"{name} holds {part}; {matrix}[{row}, {col}] is missing."


def _layout(words: Array, tile: Array) -> str:
    """How the tile lies in the array, if its rows and columns are evenly apart."""
    rows, cols = tile.shape
    if min(rows, cols) < 2:
        return ""
    first, below, beside = (int(np.flatnonzero(words == it)[0]) for it in (tile[0, 0], tile[1, 0], tile[0, 1]))
    place = first + np.add.outer(np.arange(rows) * (below - first), np.arange(cols) * (beside - first))
    if place.min() < 0 or place.max() >= len(words) or (words[place] == tile).mean() < ALIKE:
        return ", in an order of its own"
    return ", row by row" if beside - first == 1 else ", column by column (transposed)" if below - first == 1 else ""


def _own_arrays(remains: Remains, names: Mapping[tuple[str, str, int], str]) -> Iterator[tuple[str, Array]]:
    """Name and words (threads, n) of each array of a thread; it ends where the next one begins."""
    for variable, words in remains.own.items():
        starts = sorted(offset for space, owner, offset in names if (space, owner) == ("own", variable))
        for start, end in pairwise([*starts, words.shape[1] * 4]):
            if start % 4 == 0 and end > start:
                yield names["own", variable, start], words[:, start // 4 : end // 4]


def _fragment(name: str, words: Array, tiles: Mapping[str, Array]) -> str:
    """An array of a thread that holds numbers of A or of B."""
    written = words != UNWRITTEN
    for matrix, tile in tiles.items():
        ours = np.isin(words, tile) & written
        if ours.all():
            if words.shape[1] > 1 and (words == words[:, :1]).all():
                return f"{name} holds one number of {matrix} again and again."
            return f"{name} holds numbers of {matrix}."
        if ours.any() and (ours | ~written).all():
            return f"{name} is filled in part: {int(ours[0].sum())} of {words.shape[1]}, with numbers of {matrix}."
    return ""


def _sums(problem: Problem, own: list[tuple[str, Array]], remains: Remains) -> str:
    """Accumulators that hold right sums: an array of each thread, or a register."""
    registers = [("", words[:, None]) for words in remains.registers]
    for name, words in (*own, *registers):
        values = words.view(np.float32).astype(np.float64)
        place = _place(values, problem) if np.isfinite(values).all() else np.array([-1])
        if (place < 0).any():
            continue
        subject = f"{name} holds" if name else "the accumulator holds"
        different = np.unique(place).size
        if different >= ALIKE * problem.reference.size:
            return f"{_capital(subject)} the right sums."
        if different > 1:
            return (
                f"{_capital(subject)} right sums, but of {different:,} of the {problem.reference.size:,} elements: "
                f"{_shared_by(place)}."
            )
    return ""


def _shared_by(place: Array) -> str:
    """Which threads compute the same elements."""
    if len(place) % WARP == 0 and (place.reshape(-1, WARP, place.shape[1]) == place[::WARP, None]).all():
        warps = np.unique(place[::WARP], axis=0).shape[0]
        if warps * WARP == len(place):
            return "each warp has its own, and all lanes of a warp have the same ones"
    return "several threads compute the same ones"


def _place(values: Array, problem: Problem) -> Array:
    """Where in the right answer each value stands; -1 for nowhere."""
    right = problem.reference.ravel()
    order = np.argsort(right)
    after = np.clip(np.searchsorted(right[order], values), 1, max(1, right.size - 1))
    below, above = order[after - 1], order[np.minimum(after, right.size - 1)]
    nearest = np.where(np.abs(values - right[below]) <= np.abs(values - right[above]), below, above)
    near = np.abs(values - right[nearest]) <= problem.tolerance.ravel()[nearest]
    return np.where(near, nearest, -1)


def _capital(text: str) -> str:
    """A sentence may begin with a name of the source: that stays as it is."""
    return text if not text.startswith("the ") else f"T{text[1:]}"
