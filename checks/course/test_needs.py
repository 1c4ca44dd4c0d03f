"""Which GPUs can run a lesson: ``needs`` in ``lesson.toml`` is the least architecture that its kernels compile for."""

from __future__ import annotations

import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.device import BuildTarget
from gemm_lessons.engine.hardware.sheets import OLDEST_ARCH
from gemm_lessons.running.builder import Builder

COURSE = packaged_course()
ANYWHERE = [name for part in COURSE.parts if part.number in (1, 2, 5) for name in part.names]
ANYWHERE.remove("27_ozaki")  # a byway of part 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(it, marks=() if number % 3 == 0 else pytest.mark.long)
        for number, it in enumerate(it for it in COURSE.names if not COURSE.lesson(it).architecture)
    ],
)
def test_a_lesson_compiles_for_the_least_gpu_that_it_names(name: str) -> None:
    """Without ``needs``, for the oldest that the compiler knows; with it, not for that one."""
    lesson = COURSE.lesson(name)
    source = lesson.solution_path.read_text()

    def compiles(arch: str) -> bool:
        return isinstance(Builder(BuildTarget(arch)).build(lesson, lesson.solution_path, source), tuple)

    assert compiles(lesson.needs or f"sm_{OLDEST_ARCH}")
    assert not lesson.needs or not compiles(f"sm_{OLDEST_ARCH}")


@pytest.mark.parametrize("name", ANYWHERE)
def test_every_gpu_runs_parts_1_2_and_5(name: str) -> None:
    lesson = COURSE.lesson(name)
    assert (lesson.needs, lesson.architecture) == ("", "")
