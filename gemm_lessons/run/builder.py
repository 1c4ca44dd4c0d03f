"""A lesson's kernel file -> ``Compiled``, if it is the kernel that the lesson launches; ahead of time where it pays.

NVRTC and the disassembler leave Python alone while they work, so what the table compares with is compiled on the other
core while the learner's kernel is being checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gemm_lessons.compiler import compile as compiler
from gemm_lessons.compiler.compile import Compiled, compile_source
from gemm_lessons.compiler.nvrtc import choose_major
from gemm_lessons.course.folder import read_source, shown
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.judgement.verdict import CompileFailed
from gemm_lessons.run.signature import mismatch, wrong_name

if TYPE_CHECKING:
    from concurrent.futures import Future


class Builder:
    """Compiles for one target; ``driver_major`` is the newest CUDA that a GPU's driver supports, ``None`` without."""

    def __init__(self, arch: str, driver_major: int | None = None) -> None:
        self.arch = arch
        self.driver_major = driver_major
        self._under_way: dict[Path, Future[Compiled | compiler.NotCompiled]] = {}

    def makes_the_same_as(self, other: Builder) -> bool:
        """Whether both compile any source to the same machine code."""
        return self.arch == other.arch and self._major() == other._major()

    def _major(self) -> int:
        return choose_major(self.arch, self.driver_major)

    def ahead(self, lesson: Lesson, path: Path | None) -> None:
        """Begin to compile what ``build`` will be asked for later; no file, nothing to do."""
        if path is not None and path not in self._under_way:
            from concurrent.futures import ThreadPoolExecutor  # slow to import, and lesson 01 is compared with nothing

            pool = ThreadPoolExecutor(1)
            self._under_way[path] = pool.submit(self._translate, lesson, path, read_source(path))
            pool.shutdown(wait=False)

    def build(self, lesson: Lesson, path: Path, source: str) -> Compiled | CompileFailed:
        """Compile a file, and see that it holds the kernel that the lesson launches. Raises ``KitError``."""
        under_way = self._under_way.pop(path, None)
        result = under_way.result() if under_way else self._translate(lesson, path, source)
        if isinstance(result, Compiled):
            wrong = mismatch(lesson.kernel, result)
            return CompileFailed(wrong, result.diagnostics) if wrong else result
        errors = sum(diagnostic.severity == "error" for diagnostic in result.diagnostics)
        message = wrong_name(lesson.kernel, result.diagnostics)
        message = message or f"the compiler found {errors or 'an'} error{'s'[: errors > 1]}"
        return CompileFailed(message, result.diagnostics, result.log)

    def _translate(self, lesson: Lesson, path: Path, source: str) -> Compiled | compiler.NotCompiled:
        result = compile_source(
            source,
            path=shown(path),
            entry=lesson.kernel.entry,
            defines=lesson.tile.defines,
            include_dirs=lesson.include_dirs,
            arch=self.arch,
            cuda_major=self._major(),
        )
        if isinstance(result, Compiled):
            result.start_sass()  # the counters will want it when the first shapes have been checked
        return result
