"""The last hints of a lesson are code that compiles in its stub."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.todos import Stub, todo_marks
from gemm_lessons.devices.device import BuildTarget
from gemm_lessons.judging.verdict import CompileFailed
from gemm_lessons.running.builder import Builder


def with_last_hints(lesson: Lesson) -> str:
    """The stub with the last hint of every TODO pasted above the TODO's comment."""
    source = lesson.stub_path.read_text()
    hints = {todo.number: todo.hints[-1] for todo in lesson.todos}
    lines = source.split("\n")
    for mark in sorted(todo_marks(source), key=lambda mark: mark.line, reverse=True):
        lines.insert(mark.line - 1, hints[mark.number])
    return "\n".join(lines)


@pytest.mark.parametrize("name", any_course().names)
def test_the_last_hints_compile_in_the_stub(name: str, tmp_path: Path) -> None:
    course = any_course()
    lesson = course.lesson(name)
    path = tmp_path / "kernel.cu"
    path.write_text(source := with_last_hints(lesson))
    built = Builder(BuildTarget(course.architecture_of(lesson))).build(lesson, path, source)
    errors = [f"line {it.line}: {it.message}" for it in built.diagnostics] if isinstance(built, CompileFailed) else []
    assert not isinstance(built, CompileFailed), [built.message, *errors]


def test_a_stub_with_two_kernels_has_todos_for_each() -> None:
    stub = Stub.of(any_course().lesson("dp4a").stub_path.read_text())
    assert [it.numbers for it in stub.of_kernels(["gemm"]).groups] == [(1,), (2,), (3,), (4,)]
    assert [it.numbers for it in stub.of_kernels(["gemm_halves"]).groups] == [(1,), (5,), (6,), (7,), (8,)]
