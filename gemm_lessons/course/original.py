"""The installed course: how a learner's folder differs from it, and how to restore it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gemm_lessons.course.folder import (
    CommandError,
    Course,
    Reset,
    for_learners,
    packaged_course,
    read_bytes,
    replace_with_backup,
    writing,
)
from gemm_lessons.course.lesson import Lesson, LessonError
from gemm_lessons.course.lesson_toml import load_lesson

SETTINGS = "lesson.toml"


def changed_settings(lesson: Lesson) -> tuple[str, ...]:
    """Return the settings of lesson.toml that affect runs and differ from the package's: ``BK = 16, not 8``,
    ``[shapes]``, ...

    Empty for a lesson that the package does not have, or that is the package's own.
    """
    directory = packaged_course().lessons_dir / lesson.name
    theirs = directory / SETTINGS
    if not theirs.is_file() or theirs.resolve() == lesson.toml_path.resolve():
        return ()
    if theirs.read_bytes() == lesson.toml_path.read_bytes():
        return ()
    try:
        original = load_lesson(directory)
    except LessonError:
        return ()
    before, now = original.tile.defines, lesson.tile.defines
    found = [
        f"{name} = {now.get(name, 'missing')}, not {before.get(name, 'there')}"
        for name in {**before, **now}
        if now.get(name) != before.get(name)
    ]
    tables = {
        "[launch]": original.launches != lesson.launches,
        "[buffers] or types": original.with_tile(lesson.tile).data != lesson.data,
        "[shapes]": original.shapes != lesson.shapes,
        "[[gates]]": original.gates != lesson.gates,
    }
    return (*found, *(table for table, differs in tables.items() if differs))


def remarks_on(lesson: Lesson) -> tuple[str, ...]:
    """Return remarks on a run whose settings differ from the package's."""
    changed = changed_settings(lesson)
    if not changed:
        return ()
    back = f"gemm-lessons reset {lesson.number:02} --settings"
    return (f"lesson.toml differs from the course's: {', '.join(changed)}. To restore it: {back}",)


def restore_settings(course: Course, name: str) -> list[Reset]:
    """Restore a lesson's lesson.toml. This and the next two functions raise ``CommandError`` and ``WriteError``."""
    return _restore(course, [Path(name) / SETTINGS])


def restore_lesson(course: Course, name: str) -> list[Reset]:
    """Restore all files of a lesson, and the stub as kernel.cu if there is one."""
    return _restore(course, _files(name)) + _stub(course, name)


def restore_course(course: Course) -> list[Reset]:
    """Restore all files of the course. Lessons that were added stay as they are."""
    done = _restore(course, _files("."))
    for name in packaged_course().names:
        done += _stub(course, name)
    return done


def _files(folder: str) -> list[Path]:
    """Return a learner's files of a folder of the package, relative to ``lessons``."""
    source = packaged_course().lessons_dir
    return sorted(path.relative_to(source) for path in _walk(source / folder))


def _walk(folder: Path) -> Iterator[Path]:
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    wanted = for_learners([entry.name for entry in entries])
    for entry in entries:
        if entry.name in wanted:
            if entry.is_dir():
                yield from _walk(entry)
            else:
                yield entry


def _restore(course: Course, files: list[Path]) -> list[Reset]:
    source = packaged_course()
    if source.root.resolve() == course.root.resolve():
        raise CommandError("these lessons are the package's own; restore them with git")
    if not all((source.lessons_dir / file).is_file() for file in files) or not files:
        raise CommandError("the package has no such lesson to restore; it is one of your own")
    done = []
    for file in files:
        target, theirs = course.lessons_dir / file, (source.lessons_dir / file).read_bytes()
        with writing(target.parent):  # a folder without permission, a file in place of a folder
            there = target.exists()
            target.parent.mkdir(parents=True, exist_ok=True)
        if not there or read_bytes(target) != theirs:
            done.append(replace_with_backup(target, theirs))
    return done


def _stub(course: Course, name: str) -> list[Reset]:
    kernel, stub = course.lessons_dir / name / "kernel.cu", course.lessons_dir / name / "stub.cu"
    if not kernel.exists() or not stub.exists() or read_bytes(kernel) == read_bytes(stub):
        return []
    return [replace_with_backup(kernel, read_bytes(stub))]
