"""A row of the table of mistakes (``mistakes.py``), and the pattern that it recognises in a wrong answer.

Wrong --transformation--> what C would be --comparison--> facts --> Pattern
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.judging.named_sentence import Facts, NamedSentence
from gemm_lessons.judging.wrong_answer import MOSTLY, Transformation, Wrong


@dataclass(frozen=True)
class Pattern(NamedSentence):
    """A recognised kind of wrong answer.

    ``vague``: it says where C is wrong, but little about the mistake. ``also``: a second mistake in the same answer.
    ``shape``: where it was recognised, if that is not the shape of the verdict.
    """

    vague: bool = False
    also: Pattern | None = None
    shape: Shape | None = None

    @property
    def explanation(self) -> str:
        """Return the explanation as it is shown."""
        at = f"at {self.shape}, " if self.shape else ""
        return f"{at}{self.text}{f' {self.also.explanation}' if self.also else ''}"


@dataclass(frozen=True)
class Mistake:
    """A row of the table. ``also`` names a second mistake that the same kernel may have, whose sentence follows."""

    name: str
    transformation: Callable[[Wrong], Any]
    comparison: Callable[[Wrong, Callable[[Wrong], Any]], Facts | None]
    sentence: str
    vague: bool = False
    also: str = ""


def every(it: Wrong, transformation: Transformation) -> Facts | None:
    """Compare every element of C with the mistake's value; at least one of them must be wrong."""
    return next((made.facts for made in transformation(it) if it.is_nearly(made.answer, made.tolerance)), None)


def near(it: Wrong, transformation: Transformation) -> Facts | None:
    """Compare the elements that the transformation names, right or wrong."""
    for made in transformation(it):
        if (np.abs(it.got[made.at] - made.answer) <= made.tolerance).all():
            return made.facts
    return None


def wrong(it: Wrong, transformation: Transformation) -> Facts | None:
    """Compare the set of wrong elements exactly."""
    return next((made.facts for made in transformation(it) if it.is_wrong_in(made)), None)


def mostly(it: Wrong, transformation: Transformation) -> Facts | None:
    """Compare the set of wrong elements; a few may be right by chance."""
    return next((made.facts for made in transformation(it) if it.is_wrong_in(made, MOSTLY)), None)


def search(it: Wrong, transformation: Callable[[Wrong], Facts | None]) -> Facts | None:
    """Accept a transformation that fits its parameters to C and has compared every element itself."""
    return transformation(it)
