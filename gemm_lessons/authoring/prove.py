"""prove(): all proofs of one lesson, in the order in which its author writes the files.

A proof that depends on another is omitted where that one finds a flaw, so that each mistake is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from gemm_lessons.authoring import kernels, pitfalls, questions, texts
from gemm_lessons.authoring.candidate import Candidate, Shared, flaw, scratch_folder
from gemm_lessons.course import CommandError, Course, Lesson, LessonError, load_lesson, read_source
from gemm_lessons.engine import UnsupportedKernel
from gemm_lessons.engine.records import dataclass

FILES = {  # file -> purpose
    "stub.cu": "the solution without its idea, which is left out at // TODO(1), // TODO(2), ...",
    "solution.cu": "the stub with its TODOs filled in",
    "README.md": "the text",
}


@dataclass(frozen=True)
class Proof:
    """One requirement on a lesson. ``after``: the proofs that it depends on."""

    name: str
    what: str
    flaws: Callable[[Candidate], Iterator[str]]
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proven:
    """The result of one proof: no flaws, flaws, or None where it was omitted."""

    proof: str
    what: str
    flaws: tuple[str, ...] | None

    @property
    def holds(self) -> bool:
        """Tell whether the proof was made and found no flaw."""
        return self.flaws == ()


STUB, SOLUTION, TEXT = "stub", "solution", "text"
PROOFS: tuple[Proof, ...] = (
    Proof("written", "nothing of the skeleton is left", texts.nothing_is_left_to_write),
    Proof(STUB, "the stub compiles, runs without a fault and answers wrongly", kernels.stub_answers_wrongly),
    Proof(SOLUTION, "the solution passes every shape and gate", kernels.solution_passes),
    Proof("previous", "the previous solution does not", kernels.previous_misses_a_gate, (SOLUTION, "written")),
    Proof("lines", "solving only adds lines at the TODOs", kernels.solving_only_adds_lines),
    Proof("hints", "each TODO has its hints", kernels.every_todo_has_hints),
    Proof("title", "the title names the lesson", texts.title_names_the_lesson),
    Proof(TEXT, "the text has its sections", texts.sections_are_there),
    Proof("box", "it ends with the lesson's idea", texts.ends_with_the_idea, (TEXT,)),
    Proof("steps", "one step for each TODO", texts.one_step_for_each_todo, (TEXT, "hints")),
    Proof("code", "quoted code is the code", texts.quoted_code_is_the_code, ("lines",)),
    Proof("width", "code and drawings fit a terminal", texts.code_fits_the_terminal),
    Proof("sections", "sections that are named are there", texts.named_sections_are_there, (TEXT,)),
    Proof("commands", "commands in the text exist", texts.commands_exist),
    Proof("exercises", "exercises name tile sizes that are there", texts.exercises_name_tile_sizes, (TEXT,)),
    Proof("links", "links lead somewhere", texts.links_lead_somewhere),
    Proof("edits", "pitfalls are edits of the solution", pitfalls.edits_fit_the_solution, (SOLUTION,)),
    Proof("numbers", "numbers are what their source gives", texts.numbers_are_true, (SOLUTION, "edits")),
    Proof("asked", "the text asks what predict.toml asks", questions.the_text_asks_them, (TEXT,)),
    Proof("answers", "a run answers each question", questions.a_run_answers_each, (SOLUTION, "asked")),
    Proof("drills", "the numbers of each drill can be drawn", questions.numbers_can_be_drawn),
    Proof("quotes", "the tool prints what pitfalls quote", pitfalls.the_tool_prints_what_is_quoted, ("edits",)),
    Proof("bugs", "each bug compiles, does not pass, and a run tells why", pitfalls.bugs_can_be_found, ("edits",)),
)


def prove_lesson(shared: Shared, name: str, proofs: Iterable[Proof] = PROOFS) -> tuple[Proven, ...]:
    """Return the results of all proofs of the lesson in the folder ``name``."""
    lesson, broken = _readable(shared.course, shared.course.lessons_dir / name)
    first = Proven("files", "its files are there and lesson.toml is in order", broken)
    if lesson is None or broken:
        return (first, *(Proven(proof.name, proof.what, None) for proof in proofs))
    with TemporaryDirectory() as folder:
        candidate = Candidate(shared, lesson, scratch_folder() or Path(folder))
        return (first, *_made(candidate, proofs))


def _readable(course: Course, directory: Path) -> tuple[Lesson | None, tuple[str, ...]]:
    try:
        lesson = load_lesson(directory)
    except LessonError as error:
        return None, (str(error),)
    return lesson, tuple(_unreadable(course, lesson))


def _unreadable(course: Course, lesson: Lesson) -> Iterator[str]:
    for name, what in FILES.items():
        path = course.kept_back(lesson, name)
        if not path.is_file():
            yield flaw(lesson.directory / name, None, f"is not there; write {what}")
        elif not path.read_bytes().strip():
            yield flaw(path, None, f"is empty; write {what}")
        else:
            try:
                read_source(path)
            except CommandError as error:
                yield str(error)


def _made(candidate: Candidate, proofs: Iterable[Proof]) -> Iterator[Proven]:
    failed: set[str] = set()
    for proof in proofs:
        if failed.intersection(proof.after):
            failed.add(proof.name)
            yield Proven(proof.name, proof.what, None)
            continue
        found = _flaws(proof, candidate)
        if found:
            failed.add(proof.name)
        yield Proven(proof.name, proof.what, found)


def _flaws(proof: Proof, candidate: Candidate) -> tuple[str, ...]:
    try:
        return tuple(proof.flaws(candidate))
    except (CommandError, LessonError) as error:  # it names the file, of this lesson or of the previous one
        return (str(error),)
    except UnsupportedKernel as error:
        return (flaw(candidate.lesson.directory, None, f"the simulator cannot run one of its kernels: {error}"),)
