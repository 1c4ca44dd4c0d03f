"""A row of the table of mistakes (``mistakes.py``), and the pattern that it recognises in a wrong answer.

Wrong --transformation--> what C would be --comparison--> facts --> Pattern
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.told import Facts, Told
from gemm_lessons.judging.wrong_answer import MOSTLY, Transformation, Wrong


@dataclass(frozen=True)
class Pattern(Told):
    """A kind of wrong answer that was recognised.

    ``vague``: it says where C is wrong, and of the mistake little. ``also``: a second mistake in the same answer.
    ``shape``: where it was recognised, if that is not the shape of the verdict.
    """

    vague: bool = False
    also: Pattern | None = None
    shape: Shape | None = None

    @property
    def explanation(self) -> str:
        """What is shown."""
        at = f"at {self.shape}, " if self.shape else ""
        return f"{at}{self.text}{f' {self.also.explanation}' if self.also else ''}"


@dataclass(frozen=True)
class Mistake:
    """A row. ``also`` names a mistake that the same kernel may have: its sentence follows."""

    name: str
    transformation: Callable[[Wrong], Any]
    comparison: Callable[[Wrong, Callable[[Wrong], Any]], Facts | None]
    sentence: str
    vague: bool = False
    also: str = ""


def every(it: Wrong, transformation: Transformation) -> Facts | None:
    """Every element of C is what the mistake makes of it, and that is not the right answer."""
    return next((made.facts for made in transformation(it) if it.is_nearly(made.answer, made.tolerance)), None)


def near(it: Wrong, transformation: Transformation) -> Facts | None:
    """The same of the elements that the transformation names, be they right or wrong."""
    for made in transformation(it):
        if (np.abs(it.got[made.at] - made.answer) <= made.tolerance).all():
            return made.facts
    return None


def wrong(it: Wrong, transformation: Transformation) -> Facts | None:
    """The transformation says which elements are wrong: exactly these are."""
    return next((made.facts for made in transformation(it) if it.is_wrong_in(made)), None)


def mostly(it: Wrong, transformation: Transformation) -> Facts | None:
    """The same, but a few of these may be right by chance."""
    return next((made.facts for made in transformation(it) if it.is_wrong_in(made, MOSTLY)), None)


def search(it: Wrong, transformation: Callable[[Wrong], Facts | None]) -> Facts | None:
    """The transformation fits its parameters to C, and has compared every element with what they give."""
    return transformation(it)
