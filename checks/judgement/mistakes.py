"""Mistakes that learners make, each with the words that a run must print about it, and right kernels in other styles,
about which it must print none of them.

    python -m checks.judgement.mistakes         # the table: kernel, changed lines, words of the run
    python -m checks.judgement.mistakes NAME    # the whole output of runs of those whose name begins so

A mistake is an edit of a lesson's solution or stub: pairs of what to find, once, and what to write there instead.
``mistakes.toml`` has it under its lesson and name, as ``[mistake."naive/assigned"]``; a right kernel as ``[style...]``.
"""

from __future__ import annotations

import difflib
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from checks.usage import help_if_asked
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.pitfalls import with_edits
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.report.console import make_console
from gemm_lessons.report.run import ScreenContext, show_details
from gemm_lessons.running.outcome import RunOutcome
from gemm_lessons.running.pipeline import RunRequest, run_lesson

Edit = tuple[str, str]
SEED = 5  # of the inputs: the same at every run


@dataclass(frozen=True)
class Mistake:
    """``edits`` of a lesson's ``solution.cu``; ``says``: words that the run must print, "" for a right kernel in
    another style."""

    name: str
    lesson: str
    edits: tuple[Edit, ...]
    says: str
    stub: bool = False  # the edits are of stub.cu


def _read(kind: str) -> tuple[Mistake, ...]:
    entries = tomllib.loads((Path(__file__).parent / "mistakes.toml").read_text())[kind]
    return tuple(
        Mistake(name, lesson, tuple((a, b) for a, b in it["edits"]), it.get("says", ""), it.get("stub", False))
        for label, it in entries.items()
        for lesson, _, name in [label.partition("/")]
    )


MISTAKES = _read("mistake")
STYLES = _read("style")


@cache
def lesson_named(name: str) -> Lesson:
    course = any_course()
    return course.lesson(next(it for it in course.names if it.partition("_")[2] == name))


def on_two_shapes(lesson: Lesson) -> Lesson:
    """The lesson with its two smallest shapes alone, the larger of which is counted: two, because a run merges the
    findings of its shapes."""
    shapes = lesson.shapes
    few = sorted((*shapes.check, shapes.count), key=lambda it: it.m * it.n * it.k)[:2]
    return replace(lesson, shapes=replace(shapes, check=tuple(few), count=few[-1]))


def source_of(it: Mistake) -> str:
    """The kernel with its mistake. Raises ``LessonError`` where an edit does not match."""
    lesson = lesson_named(it.lesson)
    source = (lesson.stub_path if it.stub else lesson.solution_path).read_text()
    return with_edits(source, it.edits, f"{it.name} of {it.lesson}")


@contextmanager
def requested(lesson: Lesson, source: str, estimating: bool = False) -> Iterator[RunRequest]:
    """A run of a kernel on the simulator with a fixed seed; ``estimating``: with an estimate."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(source)
        request = RunRequest(any_course(), lesson, path, Simulated(), GPUS["h200"], seed=SEED, beside=False)
        yield replace(request, estimating=estimating)


def run(lesson: Lesson, source: str, estimating: bool = False) -> RunOutcome:
    """Make such a run."""
    with requested(lesson, source, estimating) as request:
        return run_lesson(request)


def words_of(outcome: RunOutcome) -> str:
    """The text that a run prints, without line breaks and table."""
    console = make_console()
    console.width = 10_000
    with console.capture() as said:
        show_details(console, outcome, ScreenContext())
    return "\n".join(line.rstrip() for line in said.get().splitlines())


def told(it: Mistake, lesson: Lesson | None = None) -> str:
    """The text that a run prints about a mistake; ``lesson`` may have other shapes."""
    return words_of(run(lesson or lesson_named(it.lesson), source_of(it)))


def change_of(it: Mistake) -> str:
    """Its edits as a diff without context."""
    lesson = lesson_named(it.lesson)
    before = (lesson.stub_path if it.stub else lesson.solution_path).read_text().splitlines()
    lines = difflib.unified_diff(before, source_of(it).splitlines(), n=0, lineterm="")
    changed = [f"{line[0]} {line[1:].strip()}" for line in lines if line[:2] not in ("--", "++", "@@")]
    return " ".join(line for line in changed if len(line) > 2)


def main(names: list[str]) -> None:
    if names:
        for it in MISTAKES:
            if any(f"{it.lesson}/{it.name}".startswith(name) or it.name.startswith(name) for name in names):
                print(f"##### {it.lesson}/{it.name}\n{told(it)}")
        return
    print("| lesson | mistake | what is changed | what the run says |\n|---|---|---|---|")
    for it in MISTAKES:
        line = next((line.strip() for line in told(it).splitlines() if it.says in line), "NOT SAID")
        print(f"| {it.lesson} | {it.name} | `{change_of(it)}` | {line} |".replace("||", "\\|\\|"), flush=True)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main(sys.argv[1:])
