"""Read a kernel file with the headers that it includes, the lesson's and the learner's own."""

from __future__ import annotations

import os
from pathlib import Path

from gemm_lessons.course import CommandError, Lesson, read_source, shown
from gemm_lessons.engine.compiler import Places, forbidden, included_names, without_comments
from gemm_lessons.engine.records import dataclass


@dataclass(frozen=True)
class KernelText:
    """The learner's file, with the files that it includes: name in the folder of main.cu -> content."""

    path: Path
    text: str
    headers: tuple[tuple[str, str], ...]

    @property
    def everything(self) -> str:
        """Return the text of kernel and headers without comments."""
        return without_comments("\n".join((self.text, *(content for _, content in self.headers))))


def read_kernel(lesson: Lesson, path: Path) -> KernelText:
    """Read a kernel file and the headers that it includes. Raises ``CommandError``."""
    text = read_source(path)
    found: dict[str, str] = {}
    waiting = [(text, path.parent, Path())]
    while waiting:
        source, folder, place = waiting.pop()
        for name, _ in included_names(source) or ():
            folders = (folder, *lesson.include_dirs)
            header = next((place / name for place in folders if (place / name).is_file()), None)
            if header is None:
                continue  # a header of the CUDA toolkit or the C++ library
            beside = (place / name if header.parent == (folder / name).parent else Path(name)).as_posix()
            if beside.startswith(("/", "..")) or beside in ("main.cu", "Makefile", "README.md"):
                raise CommandError(f"{shown(path)}: cannot be exported: #include of {name}, outside of its folder")
            if beside not in found:
                found[beside] = read_source(header)
                waiting.append((found[beside], header.parent, Path(beside).parent))
    places = Places(os.path.abspath(path), shown(path), lesson.include_dirs, (), (lesson.solution_path,))
    if outside := forbidden(text, places):
        raise CommandError(f"{shown(path)}: cannot be exported: line {outside.line} {outside.message}")
    return KernelText(path, text, tuple(sorted(found.items())))
