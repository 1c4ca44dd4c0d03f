"""A sentence as data: its name, its words with gaps, and the facts that fill the gaps. Advice reads names and facts.

``{k:few}`` in a sentence is the fact ``k`` in the words of ``PHRASES["few"]``; ``{k}`` is the fact itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gemm_lessons.engine.records import dataclass

Facts = Mapping[str, Any]

RUNS = 4  # most numbers, or runs of numbers, to list


@dataclass(frozen=True)
class NamedSentence:
    """A named sentence. ``name``: a stable identifier that several may share. ``sentence`` is for readers only."""

    name: str
    sentence: str
    facts: Facts

    @property
    def text(self) -> str:
        """Return the sentence with its facts."""
        return self.sentence.format_map({name: _Fact(value) for name, value in self.facts.items()})


class Lines(NamedTuple):
    """Rows or columns of C, or, ``in_tile``, the same ones of each block tile."""

    numbers: tuple[int, ...]
    in_tile: bool


class TilePart(NamedTuple):
    """A part of every block tile, or of C where ``tile`` is empty. Empty ``rows`` or ``cols`` mean all of them."""

    rows: tuple[int, ...]
    cols: tuple[int, ...]
    tile: tuple[int, ...]
    which: str = ""  # "all but" this part, or "such as" this part


def few(numbers: Sequence[int]) -> str:
    """Return ``0 to 7, 16`` for ascending numbers; shorten a long list."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"{', '.join(shown[:RUNS])}{', ...' if len(shown) > RUNS else ''}"


def _lines(lines: Lines) -> str:
    return f"{few(lines.numbers)}{' of each block tile' if lines.in_tile else ''}"


def _part(part: TilePart) -> str:
    each = [
        f"{noun} {numbers[0]}" if len(numbers) == 1 else f"{noun}s {few(numbers)}"
        for noun, numbers in (("row", part.rows), ("column", part.cols))
        if numbers
    ]
    of = " of each {} x {} tile".format(*part.tile) if part.tile else ""
    return f"{part.which} {', '.join(each)}{of}".lstrip()


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number not in (11, 12, 13) else "th"
    return f"{number}{ending}" if number > 1 else "first"


def _noun(in_tile: bool) -> str:
    return "k of the tile" if in_tile else "k"


def _times(counted: Sequence[tuple[bool, int, tuple[int, ...]]]) -> str:
    said = {0: "missing", 2: "counted twice", -1: "subtracted"}
    return "; ".join(
        f"{_noun(in_tile)} = {few(k)}: {said.get(times, f'counted {times} times')}" for in_tile, times, k in counted
    )


_ORDERS = {
    "": "",
    "its own": ", in an order of its own",
    "row": ", row by row",
    "column": ", column by column (transposed)",
}
PHRASES: Mapping[str, Callable[[Any], str]] = {
    "few": few,  # (0, 1, 2, 9): 0 to 2, 9
    "and": " and ".join,
    "and of": " and of ".join,
    "number": "{:.6g}".format,
    "lines": _lines,
    "part": _part,
    "ordinal": _ordinal,
    "elements are": lambda count: "1 element is" if count == 1 else f"{count:,} elements are",
    "in brackets": lambda names: f" ({', '.join(names)})" if names else "",
    "places": lambda places: ", ".join(f"({k}, {col})" for k, col in places),
    # of products that are the same in each K tile, or are not
    "whole": lambda in_tile: "each K tile" if in_tile else "every sum",
    "k": _noun,
    "times of k": _times,
    # other memory that a sum may have read uninitialised
    "scratch": lambda names: "".join(f" {name} where no thread stored the value," for name in names),
    "past k": lambda k: f" K = {k} is not whole tiles: do the tiles hold 0 past K?" if k else "",
    "gaps": lambda names: f" {' or '.join(names)} past the end of a line, before the next one starts," if names else "",
    # what memory holds
    "accumulator": lambda name: name or "The accumulator",
    "order": _ORDERS.__getitem__,
    "by warp": lambda by_warp: (
        "each warp has its own, and all lanes of a warp have the same ones"
        if by_warp
        else "several threads compute the same ones"
    ),
    "source lines": lambda lines: f"line{'s'[: len(lines) > 1]} {', '.join(map(str, lines))}",
}


class _Fact:
    """A fact that a sentence may put into words."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __format__(self, spec: str) -> str:
        phrase = PHRASES.get(spec)
        return phrase(self.value) if phrase else format(self.value, spec)

    def __getitem__(self, index: int) -> _Fact:
        return _Fact(self.value[index])
