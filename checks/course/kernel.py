"""A kernel of the course, from its source to its machine code: the subject of counters, measurements and estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from checks.compiling import must_compile
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.gemm.shapes import Shape

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

GPU_ARCH = "sm_90"
HERE = Path(__file__).parent
PRODUCER = "producer.cuh"  # of some variants, here; other kernels are compiled as a run compiles them, and found again


@dataclass(frozen=True)
class Kernel:
    """The source of a solution or of a variant, with the tile sizes of its lesson."""

    name: str
    lesson: Lesson
    source: str

    @classmethod
    def solution(cls, lesson: Lesson) -> Kernel:
        """The lesson's reference, unchanged; its name is the lesson's without the number, which may change."""
        return cls(lesson.name[3:], lesson, lesson.solution_path.read_text())

    @property
    def entry(self) -> str:
        """Entry of the launch that multiplies, whose resources are shown: others transpose, split, clear or add up. If
        no launch multiplies, that of the first one."""
        entries = [it.entry for it in self.lesson.launches]
        return next((entry for entry in entries if entry.startswith("gemm")), entries[0])

    def chosen(self, shapes: Iterable[Shape]) -> list[Kernel]:
        """The distinct kernels that the host chooses at those of the shapes that the lesson takes. If it takes none,
        or chooses nothing, this kernel alone."""
        taken = [shape for shape in shapes if self.lesson.shapes.refusal(shape) is None]
        lessons = dict.fromkeys(self.lesson.at(shape) for shape in taken) or (self.lesson,)
        return [replace(self, lesson=lesson) for lesson in lessons]

    def compiled(self) -> Compiled:
        """Compile for the lesson's architecture. Raises ``AssertionError`` with the compiler's log."""
        folders = (*self.lesson.include_dirs, *[HERE] * (PRODUCER in self.source))
        return compiled(
            self.source, self.lesson.solution_path, self.entry, self.lesson.tile.defines, folders, self.lesson.options,
            self.lesson.architecture or GPU_ARCH,
        )  # fmt: skip


def compiled(
    source: str,
    path: Path,
    entry: str,
    defines: Mapping[str, int],
    include_dirs: Sequence[Path] = (),
    options: Sequence[str] = (),
    arch: str = GPU_ARCH,
) -> Compiled:
    """One kernel's machine code. Raises ``AssertionError`` with the compiler's log."""
    return must_compile(
        source, path=str(path), entry=entry, defines=defines, include_dirs=include_dirs, arch=arch, options=options
    )
