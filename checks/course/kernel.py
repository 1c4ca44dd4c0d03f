"""A kernel of the course, from its source to its machine code: what is counted, measured and estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemm_lessons.course.lesson import Lesson

if TYPE_CHECKING:
    from gemm_lessons.compiler.compile import Compiled

GPU_ARCH = "sm_90"


@dataclass(frozen=True)
class Kernel:
    """The source of a solution or of a variant, with the tile sizes of its lesson."""

    name: str
    lesson: Lesson
    source: str

    @classmethod
    def solution(cls, lesson: Lesson) -> Kernel:
        """The lesson's reference, as it is; its name is the lesson's without the number, which may move."""
        return cls(lesson.name[3:], lesson, lesson.solution_path.read_text())

    def compiled(self) -> Compiled:
        """Raises ``AssertionError`` with the compiler's log."""
        from gemm_lessons.compiler.compile import Compiled, compile_source  # a machine that only measures has none

        compiled = compile_source(
            self.source,
            path=str(self.lesson.solution_path),
            entry=self.lesson.launches[0].entry,
            defines=self.lesson.tile.defines,
            include_dirs=self.lesson.include_dirs,
            arch=GPU_ARCH,
        )
        assert isinstance(compiled, Compiled), f"{self.name}: {compiled.log}"
        return compiled
