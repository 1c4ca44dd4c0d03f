"""Every lesson of the course, whoever wrote it: stub, solution, gates, hints and text keep what the course promises."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from gemm_lessons.course.folder import Course, packaged_course, todo_marks
from gemm_lessons.course.lesson import Lesson, Shape
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.hardware.sheets import GPUS, find_gpu
from gemm_lessons.run.pipeline import RunOutcome, RunRequest, run_lesson
from gemm_lessons.run.simulated import Simulated

COURSE = Course(packaged_course().root)
WIDEST = 78  # columns of code and drawings in a text: the terminal has 80, the renderer takes two
SEED = 20261121
each_lesson = pytest.mark.parametrize("name", COURSE.names)


def lesson_of(name: str) -> Lesson:
    return load_lesson(COURSE.lessons_dir / name)


def run(name: str, path: Path, beside: bool = False, gpu: str = "h200", shape: Shape | None = None) -> RunOutcome:
    lesson = lesson_of(name)
    return run_lesson(RunRequest(COURSE, lesson, path, Simulated(), find_gpu(gpu), shape, seed=SEED, beside=beside))


@cache
def solved(name: str) -> RunOutcome:
    return run(name, lesson_of(name).solution_path, beside=True)


def code(path: Path) -> list[str]:
    """Lines without those that are blank, and without trailing space."""
    return [line.rstrip() for line in path.read_text().splitlines() if line.strip()]


@each_lesson
def test_the_stub_runs_and_answers_wrongly(name: str) -> None:
    row = run(name, lesson_of(name).stub_path).kernel
    assert row.verdict.kind == "wrong_answer", row.verdict
    assert not [finding for finding in row.checked.findings if finding.severity == "error"]
    assert "TODO(1)" in row.hints[0]


@each_lesson
def test_the_solution_passes_every_shape_and_gate(name: str) -> None:
    row = solved(name).kernel
    assert row.verdict.kind == "passed", row.verdict
    assert [result.kind for result in row.checked.shapes] == ["passed"] * len(row.checked.shapes)
    assert row.checked.gates
    assert all(gate.passed for gate in row.checked.gates)
    assert not row.checked.findings
    assert not row.diagnostics, "a solution compiles without warnings"


@pytest.mark.slow
@each_lesson
def test_another_gpu_changes_the_estimate_alone(name: str) -> None:
    here = solved(name).kernel
    for gpu in sorted(GPUS.keys() - {"h200"}):
        there = run(name, lesson_of(name).solution_path, gpu=gpu, shape=lesson_of(name).shapes.count).kernel
        assert there.verdict.kind == "passed", (gpu, there.verdict)
        assert there.checked.gates == here.checked.gates
        assert there.checked.counters == here.checked.counters
        assert there.built.resources == here.built.resources
        assert there.speed.estimate is not None
        assert there.speed.estimate.gpu == GPUS[gpu].name


@pytest.mark.parametrize("name", COURSE.names[1:])
def test_the_previous_solution_misses_a_gate(name: str) -> None:
    previous = next(row for row in solved(name).rows if row.role == "previous")
    assert previous.verdict.kind == "gate_missed", (previous.verdict, previous.unsupported)


@each_lesson
def test_solving_only_adds_lines_at_the_todos(name: str) -> None:
    lesson = lesson_of(name)
    lines, pattern = code(lesson.stub_path), ""
    i = 0
    while i < len(lines):
        if re.match(r"\s*// TODO\(\d+\)", lines[i]):
            pattern += r"(?:.*\n)+?"
            i += 1
            while i < len(lines) and re.match(r"\s*//(?! TODO)", lines[i]):
                i += 1
            continue
        pattern += re.escape(lines[i]) + r"\n"
        i += 1
    solution = "\n".join(code(lesson.solution_path)) + "\n"
    assert re.fullmatch(pattern, solution), f"{name}: solution.cu differs from stub.cu elsewhere than at the TODOs"
    assert "TODO" not in solution


@each_lesson
def test_every_todo_has_hints(name: str) -> None:
    lesson = lesson_of(name)
    marks = todo_marks(lesson.stub_path.read_text())
    assert [mark.number for mark in marks] == [todo.number for todo in lesson.todos]
    assert all(len(todo.hints) >= 2 for todo in lesson.todos), "a nudge and more"


@each_lesson
def test_quoted_code_is_the_code(name: str) -> None:
    """A code block below ``<!-- from: FILE -->`` stands in that file, line by line; only the indent may differ."""
    lesson = lesson_of(name)
    text = lesson.text_path.read_text()
    for file, block in re.findall(r"<!-- from: (\S+) -->\s*```\w*\n(.*?)```", text, flags=re.DOTALL):
        quoted = [line.strip() for line in block.splitlines() if line.strip()]
        stands = [line.strip() for line in (lesson.directory / file).read_text().splitlines() if line.strip()]
        places = (stands[i : i + len(quoted)] == quoted for i in range(len(stands)))
        assert any(places), f"{name}/README.md quotes what {file} does not say:\n{block}"


@each_lesson
def test_code_and_drawings_fit_the_terminal(name: str) -> None:
    text = lesson_of(name).text_path.read_text()
    for block in re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL):
        wide = [line for line in block.splitlines() if len(line) > WIDEST]
        assert not wide, f"{name}/README.md: wider than {WIDEST} columns: {wide}"


@each_lesson
def test_the_sections_that_messages_name_are_there(name: str) -> None:
    """A gate's ``why`` or a TODO that says See 'Section' (or "Section") points at a heading of the lesson's text."""
    lesson = lesson_of(name)
    headings = re.findall(r"^#+ (.*)$", lesson.text_path.read_text(), flags=re.MULTILINE)
    said = [gate.why for gate in lesson.gates] + [mark.text for mark in todo_marks(lesson.stub_path.read_text())]
    for words in said:
        for section in re.findall(r"""[Ss]ee ['"](.+?)['"]""", words):
            assert section in headings, f"{name}: {words!r} names a section that README.md does not have"


@each_lesson
def test_commands_in_the_text_exist(name: str) -> None:
    text = lesson_of(name).text_path.read_text()
    for command, lesson in re.findall(r"gemm-lessons (\w+) (\d\d)", text):
        assert command in ("read", "start", "run", "reset", "hint")
        assert COURSE.resolve(lesson)


@each_lesson
def test_the_folder_holds_what_a_lesson_holds(name: str) -> None:
    files = {path.name for path in (COURSE.lessons_dir / name).iterdir()}
    assert {"README.md", "lesson.toml", "stub.cu", "solution.cu"} <= files
