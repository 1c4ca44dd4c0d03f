"""A kernel of the course, from its source to its machine code: what is counted, measured and estimated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gemm_lessons.course.lesson import Lesson
from gemm_lessons.gemm.shapes import Shape

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

GPU_ARCH = "sm_90"


@dataclass(frozen=True)
class Kernel:
    """The source of a solution or of a variant, with the tile sizes of its lesson."""

    name: str
    lesson: Lesson
    source: str
    entry: str = ""  # of the launch whose resources are told, where that is not the first

    @classmethod
    def solution(cls, lesson: Lesson) -> Kernel:
        """The lesson's reference, as it is; its name is the lesson's without the number, which may move."""
        return cls(lesson.name[3:], lesson, lesson.solution_path.read_text())

    def chosen(self, shapes: Iterable[Shape]) -> list[Kernel]:
        """The kernels that the host chooses at these shapes, as far as the lesson takes them; most lessons have one."""
        taken = [shape for shape in shapes if self.lesson.shapes.refusal(shape) is None]
        lessons = dict.fromkeys(self.lesson.at(shape) for shape in taken) or (self.lesson,)
        return [replace(self, lesson=lesson) for lesson in lessons]

    def compiled(self) -> Compiled:
        """Raises ``AssertionError`` with the compiler's log."""
        from gemm_lessons.engine.compiler.compile import (
            Compiled,
            compile_source,
        )  # a machine that only measures has none

        compiled = compile_source(
            self.source,
            path=str(self.lesson.solution_path),
            entry=self.entry or self.lesson.launches[0].entry,
            defines=self.lesson.tile.defines,
            include_dirs=self.lesson.include_dirs,
            arch=GPU_ARCH,
            options=self.lesson.options,
        )
        assert isinstance(compiled, Compiled), f"{self.name}: {compiled.log}"
        return compiled
