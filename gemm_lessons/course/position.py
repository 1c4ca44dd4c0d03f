"""The learner's position in a course: the lesson to continue, how much of it is written, and the next hint."""

from __future__ import annotations

from pathlib import Path

from gemm_lessons.course.folder import CommandError, Course, read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.progress import LessonProgress, Progress, load_progress
from gemm_lessons.course.todos import Stub, TodoMark, open_todos, skipped_todos, todo_marks
from gemm_lessons.engine.records import dataclass


@dataclass(frozen=True)
class Position:
    """``lesson`` is the one worked on last, unless it is passed: then the first that is not. None: all are passed.

    ``todos`` are the open TODOs of its kernel, each with its line there.
    """

    course: Course
    progress: Progress
    lesson: Lesson | None
    todos: tuple[TodoMark, ...] = ()

    @property
    def passed(self) -> int:
        """Count the passed lessons."""
        return self.progress.passed(self.course.names)

    @property
    def so_far(self) -> LessonProgress:
        """Return the progress in the lesson."""
        return self.progress.of(self.lesson.name) if self.lesson else LessonProgress()

    @property
    def started(self) -> bool:
        """Tell whether the learner has a file of the lesson."""
        return self.lesson is not None and not self.course.packaged and self.lesson.kernel_path.exists()


@dataclass(frozen=True)
class HintLevel:
    """One hint of a lesson: its TODO, its level from 1, and the TODO's mark in the stub."""

    todo: int
    level: int
    mark: TodoMark | None


def lesson_at(course: Course, name: str | None) -> Lesson:
    """Return the lesson of that name; without a name, that of the lesson's folder that the user is in, else the
    learner's current lesson, or the last one if all are passed."""
    if name is None:
        name = _here(course)
    return course.lesson(name) if name is not None else position_in(course).lesson or course.lesson(course.names[-1])


def lesson_to_run(course: Course, name: str | None) -> Lesson:
    """Return the lesson of ``lesson_at``; without a name, and if the current one has no kernel, the one last run."""
    lesson = lesson_at(course, name)
    recent = load_progress(course).recent
    if name is not None or lesson.kernel_path.exists() or recent not in course.names or _here(course):
        return lesson
    last = course.lesson(recent)
    return last if last.kernel_path.exists() else lesson


def _here(course: Course) -> str | None:
    """Return the lesson whose folder is the current one or above it."""
    try:
        below = Path.cwd().relative_to(course.lessons_dir.resolve())
    except (OSError, ValueError):
        return None
    return below.parts[0] if below.parts and below.parts[0] in course.names else None


def position_in(course: Course) -> Position:
    """Return the learner's position. Raise ``LessonError`` when the lesson is broken."""
    progress = load_progress(course)
    name = progress.recent
    if name not in course.names or (progress.of(name).passed and not progress.of(name).broken_since):
        name = progress.next_open(course.names) or ""
    if not name:
        return Position(course, progress, None)
    lesson = course.lesson(name)
    try:
        left = marks_left(course, lesson)
    except CommandError:  # empty or not text: a run reports it
        left = ()
    return Position(course, progress, lesson, left)


def marks_left(course: Course, lesson: Lesson) -> tuple[TodoMark, ...]:
    """Return the open TODOs of the learner's file in order; the stub's where there is none. Raise ``CommandError``."""
    stub = read_source(lesson.stub_path)
    own = not course.packaged and lesson.kernel_path.exists()
    source = read_source(lesson.kernel_path) if own else stub
    texts = {mark.number: mark.text for mark in todo_marks(stub)}
    left = open_todos(source, Stub.of(stub))
    return tuple(TodoMark(number, line, texts.get(number, "")) for number, line in sorted(left.items()))


def next_hint(course: Course, lesson: Lesson, so_far: LessonProgress) -> HintLevel | None:
    """Return the next hint for the first open TODO, else for the first without code below it if the last run was wrong;
    None when every TODO has its code."""
    known = {todo.number for todo in lesson.todos}
    numbers = [mark.number for mark in marks_left(course, lesson)]
    if not numbers and so_far.last in ("wrong_answer", "faulted"):
        numbers = sorted(skipped_todos(read_source(lesson.kernel_path), Stub.of(read_source(lesson.stub_path))))
    number = next((it for it in numbers if it in known), None)
    return None if number is None else hint_level(lesson, so_far, number)


def hint_level(lesson: Lesson, so_far: LessonProgress, number: int, level: int | None = None) -> HintLevel:
    """Return a hint for a TODO: by default the next one, or the last. Raise ``CommandError`` if there is none."""
    if not 1 <= number <= len(lesson.todos):
        raise CommandError(f"lesson {lesson.name} has {_numbered('TODO', len(lesson.todos))}, no TODO({number})")
    hints = lesson.todos[number - 1].hints
    if level is not None and not 1 <= level <= len(hints):
        raise CommandError(
            f"TODO({number}) of lesson {lesson.name} has {_numbered('hint', len(hints))}, no hint {level}"
        )
    if level is None:
        level = min(so_far.hints.get(number, 0) + 1, len(hints))
    marks = todo_marks(read_source(lesson.stub_path))
    return HintLevel(number, level, next((mark for mark in marks if mark.number == number), None))


def _numbered(what: str, count: int) -> str:
    return {0: f"no {what}s", 1: f"one {what}"}.get(count, f"{what}s 1 to {count}")
