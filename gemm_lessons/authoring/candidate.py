"""A lesson to be proven: its files as texts, and its runs, each made when a proof first needs it.

A flaw is one sentence for one mistake: file, line, what is wrong, what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from gemm_lessons.authoring.numbers import GPU, SEED, Numbers
from gemm_lessons.course import (
    Course,
    GateReader,
    Lesson,
    Pitfall,
    TomlReader,
    load_pitfalls,
    read_source,
    read_toml,
    shown,
    write_atomically,
    writing,
)
from gemm_lessons.devices import Simulated
from gemm_lessons.engine import find_gpu
from gemm_lessons.engine.compiler import Compiled, cache, disassemble_ahead
from gemm_lessons.engine.records import Where, dataclass
from gemm_lessons.judging import CompileFailed
from gemm_lessons.running import RunOutcome, RunPlan, RunRequest, run_lesson

Printer = Callable[[RunOutcome], str]  # what ``gemm-lessons run`` prints at 80 columns


def kernels_of(request: RunRequest) -> list[Compiled]:
    """Return what a run disassembles of its kernel, compiled as the run compiles it; nothing if it does not compile."""
    plan, source = RunPlan.of(request), read_source(request.path)
    found: list[Compiled] = []
    for lesson in plan.kernels[0].disassembled:
        code = plan.workshop.build(lesson, request.path, source)
        found += () if isinstance(code, CompileFailed) else code.counted
    return found


def flaw(path: Path, line: int | None, message: str) -> str:
    """Return ``lessons/03_block_tile/stub.cu:12: message``, in an editor's format."""
    return f"{shown(path)}{f':{line}' if line else ''}: {message}"


def line_at(text: str, index: int) -> int:
    """Return the line, from 1, of a place in a text."""
    return text.count("\n", 0, index) + 1


@dataclass(frozen=True)
class Shared:
    """Shared by a course's proofs, so that each count is made once. ``commands``: those that texts may name."""

    course: Course
    printer: Printer
    commands: frozenset[str]
    numbers: Numbers

    @classmethod
    def of(cls, course: Course, printer: Printer, commands: Iterable[str]) -> Shared:
        """Return the state with nothing counted yet."""
        return cls(course, printer, frozenset(commands), Numbers(course))


class Candidate:
    """One lesson of a course, and everything that its proofs read."""

    def __init__(self, shared: Shared, lesson: Lesson, scratch: Path) -> None:
        self.course = shared.course
        self.numbers = shared.numbers
        self.printer = shared.printer
        self.commands = shared.commands
        self.lesson = lesson
        self._scratch = scratch
        self._pitfall_runs: dict[tuple[str, bool], RunOutcome] = {}

    @cached_property
    def text(self) -> str:
        """Return README.md."""
        return read_source(self.lesson.text_path)

    @cached_property
    def stub(self) -> str:
        """Return stub.cu."""
        return read_source(self.lesson.stub_path)

    @cached_property
    def solution_path(self) -> Path:
        """Return the path of solution.cu: the lesson's own or the installed package's."""
        return self.course.kept_back(self.lesson, "solution.cu")

    @cached_property
    def solution(self) -> str:
        """Return solution.cu."""
        return read_source(self.solution_path)

    @cached_property
    def pitfalls_path(self) -> Path:
        """Return the path of pitfalls.toml: the lesson's own or the installed package's; it may be missing."""
        return self.course.kept_back(self.lesson, "pitfalls.toml")

    @cached_property
    def pitfalls(self) -> Mapping[str, Pitfall]:
        """Return the pitfalls of pitfalls.toml."""
        return load_pitfalls(self.pitfalls_path)

    @cached_property
    def stub_run(self) -> RunOutcome:
        """Run the unchanged stub."""
        return self._run(self.lesson, self.lesson.stub_path)

    @cached_property
    def solved(self) -> RunOutcome:
        """Run the solution, beside the previous lesson's, without estimates, which no proof needs."""
        return self._run(self.lesson, self.solution_path, beside=True, estimating=False)

    def pitfall_run(self, name: str, *, estimating: bool = False) -> RunOutcome:
        """Run the solution with the edits of a pitfall, once."""
        if (name, estimating) not in self._pitfall_runs:
            lesson = self.pitfalls[name].lesson(self.lesson)
            self._pitfall_runs[name, estimating] = self._run(lesson, self._written(name), estimating=estimating)
        return self._pitfall_runs[name, estimating]

    def disassemble_pitfalls(self, names: Iterable[str]) -> None:
        """Compile the solution with the edits of each of these pitfalls, and disassemble them all with one call: their
        runs find both in the cache. One call takes as long for all as for one."""
        runs = (self._request(self.pitfalls[name].lesson(self.lesson), self._written(name)) for name in names)
        disassemble_ahead(kernel for request in runs for kernel in kernels_of(request))

    def _written(self, name: str) -> Path:
        """Write the solution with the edits of a pitfall."""
        folder = self._scratch / self.lesson.name / name
        path = folder / "kernel.cu"
        with writing(path):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, self.pitfalls[name].source(self.solution).encode())
        return path

    def _run(self, lesson: Lesson, path: Path, beside: bool = False, estimating: bool = True) -> RunOutcome:
        return run_lesson(self._request(lesson, path, beside, estimating))

    def _request(self, lesson: Lesson, path: Path, beside: bool = False, estimating: bool = True) -> RunRequest:
        of = self.course, lesson, path, Simulated(), find_gpu(GPU)
        return RunRequest(*of, seed=SEED, beside=beside, estimating=estimating)

    def gate_at(self, id_: str, key: str) -> Where:
        """Return the place of a gate's key in lesson.toml; of ``[integrity]`` for one of the course's gates."""
        text, raw = read_toml(self.lesson.toml_path, "restore it")
        ids = [it for _, it in GateReader(self.lesson.toml_path, text).with_ids(raw, "gates")]
        return ("gates", ids.index(id_), key) if id_ in ids else ("integrity", id_)

    def in_toml(self, where: Where, message: str) -> str:
        """Return a flaw of lesson.toml, at the line of a key."""
        path = self.lesson.toml_path
        return flaw(path, TomlReader(path, path.read_text(encoding="utf-8")).line(where), message)


def scratch_folder() -> Path | None:
    """Return the folder for kernels with pitfalls; None without a cache. It is fixed: answers are cached by path."""
    place = cache.folder()
    return place.with_name("gemm-lessons-proofs") if place else None  # outside the cache's entries, which are trimmed
