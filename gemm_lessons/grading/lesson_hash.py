"""A lesson's version: one hash over all files that a verdict depends on, stored with each result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from gemm_lessons.course import Lesson

KIT_HEADERS = Path(__file__).parents[1] / "engine" / "compiler" / "headers"
HEADERS = (".cuh", ".h", ".hpp", ".inc")


def lesson_hash(lesson: Lesson) -> str:
    """Return the SHA-256 in hexadecimal over the lesson's ``lesson.toml``, its solution, ``course.toml``, the headers
    that its kernels may include and the kit's own: their names within the course and their contents.

    The course's location and the texts are not included. Raise ``OSError`` when a file cannot be read.
    """
    digest = hashlib.sha256()
    for name, path in sorted(_files(lesson)):
        data = path.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _files(lesson: Lesson) -> Iterator[tuple[str, Path]]:
    lessons = lesson.directory.parent
    for path in (lesson.toml_path, lesson.solution_path, lessons / "course.toml"):
        if path.is_file():
            yield path.relative_to(lessons).as_posix(), path
    for folder in lesson.include_dirs:
        for path in folder.rglob("*"):
            if path.suffix in HEADERS and path.is_file():
                yield path.relative_to(lessons).as_posix(), path
    for path in KIT_HEADERS.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"kit/{path.relative_to(KIT_HEADERS).as_posix()}", path
