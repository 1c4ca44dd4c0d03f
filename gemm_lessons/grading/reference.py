"""Is a submission the reference solution? Every student has it, so a pair of students does not show that.

    reference_in(text, stub, solution)  -->  "the reference solution, to the letter", or "" for the student's own work

The runs of tokens of ``similarity`` that the stub does not have are compared: names, comments and layout do not matter.
Honest kernels share up to 76% of the reference's own runs. Where the stub leaves little open, the sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from gemm_lessons.course import CommandError, Course, read_source
from gemm_lessons.grading.similarity import Run, SimilarPair, lines_with, runs_of

REFERENCE = "the reference solution"  # the second of a pair
WHOLE = 0.97  # fraction of the reference's own runs, from which a kernel counts as containing it
ENOUGH = 90  # own runs of the reference; with fewer, honest kernels may contain all of them
SHORT = "the stub leaves so little open that an honest kernel may be the same"


def reference_in(text: str, stub: str, solution: str) -> str:
    """Return in which form a kernel is the reference, or an empty string if it is the student's own."""
    if text.split() == solution.split():
        return f"{REFERENCE}, to the letter"
    given = _runs(stub)
    theirs, its = _runs(text) - given, _runs(solution) - given
    if not its:
        return ""
    if theirs == its:
        said = f"{REFERENCE} with other names, comments or layout"
    elif len(its) >= ENOUGH and len(theirs & its) >= WHOLE * len(its):
        return f"{REFERENCE} with changes"
    else:
        return ""
    return said if len(its) >= ENOUGH else f"{said}; {SHORT}"


def reference_of(course: Course, lesson: str, text: str) -> str:
    """Return ``reference_in`` for a lesson of a course; an empty string if the lesson has no reference."""
    texts = _texts(course, lesson)
    return reference_in(text, *texts) if texts else ""


def pair_with_reference(course: Course, lesson: str, student: str, text: str) -> SimilarPair | None:
    """Return a kernel that is the reference side by side with it."""
    texts = _texts(course, lesson)
    if texts is None or not reference_in(text, *texts):
        return None
    stub, solution = texts
    mine, its = runs_of(text), runs_of(solution)
    both = (mine.keys() & its.keys()) - runs_of(stub).keys()
    own = len(mine.keys() - runs_of(stub).keys())
    share = len(both) / own if own else 1.0
    return SimilarPair(lesson, student, REFERENCE, share, lines_with(text, mine, both), lines_with(solution, its, both))


def nearest_lessons(course: Course, lesson: str, text: str, most: int = 2) -> Sequence[str]:
    """Return the lessons whose stub and reference explain more of a kernel than those of ``lesson`` do, best first."""
    theirs = _runs(text)
    shares = {name: len(theirs & known) for name, known in _known(course)}
    own = shares.get(lesson, 0)
    better = sorted((name for name, share in shares.items() if share > own), key=lambda name: -shares[name])
    return better[:most]


def _known(course: Course) -> Iterator[tuple[str, frozenset[Run]]]:
    for name in course.names:
        if texts := _texts(course, name):
            yield name, _runs(texts[0]) | _runs(texts[1])


def _texts(course: Course, lesson: str) -> tuple[str, str] | None:
    """Return stub and solution of a lesson."""
    if lesson not in course.names:
        return None
    loaded = course.lesson(lesson)
    solution = course.solution(loaded)
    try:
        return None if solution is None else (read_source(loaded.stub_path), read_source(solution))
    except CommandError:  # a teacher's own lesson may lack one
        return None


@lru_cache(maxsize=100)
def _runs(text: str) -> frozenset[Run]:
    return frozenset(runs_of(text))
