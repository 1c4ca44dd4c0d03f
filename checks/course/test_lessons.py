"""Every lesson of the course keeps what a lesson promises: the proofs of ``gemm-lessons dev check``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
from typer.main import get_group

from checks.conftest import STORED_WITH, compiler
from gemm_lessons.authoring.candidate import Shared
from gemm_lessons.authoring.pitfalls import the_tool_prints_what_is_quoted
from gemm_lessons.authoring.prove import PROOFS, Proof, prove
from gemm_lessons.cli.app import whole
from gemm_lessons.course.folder import Course, packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS, find_gpu
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.report.screen import printed
from gemm_lessons.running.pipeline import RunOutcome, RunRequest, run_lesson

COURSE = Course(packaged_course().root)
SHARED = Shared.of(COURSE, printed, get_group(whole()).commands)
SEED = 20261121
LONG = ("numbers", "quotes", "bugs")  # proofs that many runs go into
ON_TENSOR_CORES = ("tensor_cores", "async_copy", "mma", "precision")
# With every change a lesson's pitfalls run once: with the newest versions up to double_buffer, with the oldest ones
# (``checks/versions.py``) behind it, where each takes as long as three of the others: every second one. Where the host
# chooses a kernel by the shape, each pitfall is compiled up to eleven times. These, and the other second ones, are
# proven with the long tests alone; their kernels and texts with the oldest versions, too.
CORE = [name for name in COURSE.names if int(name[:2]) < 10]
SELDOM = [name for name in COURSE.names if COURSE.lesson(name).choices or int(name[:2]) % 2]


def of_the_course(
    core: Sequence[pytest.MarkDecorator] = (),
    behind: Sequence[pytest.MarkDecorator] = (),
    seldom: Sequence[pytest.MarkDecorator] = (),
) -> pytest.MarkDecorator:
    """A test of each lesson, with these marks; of those behind the core, some have others, too."""
    marked = [(name, core if name in CORE else [*behind, *(seldom if name in SELDOM else ())]) for name in COURSE.names]
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in marked])


each_in_its_time = of_the_course(behind=[pytest.mark.long])
with_one_compiler = of_the_course([pytest.mark.newest], [pytest.mark.long], [pytest.mark.newest])
core_with_every_change = of_the_course(behind=[pytest.mark.slow, pytest.mark.long])


def lesson_of(name: str) -> Lesson:
    return load_lesson(COURSE.lessons_dir / name)


def run(name: str, path: Path, gpu: str = "h200", shape: Shape | None = None) -> RunOutcome:
    lesson = lesson_of(name)
    return run_lesson(RunRequest(COURSE, lesson, path, Simulated(), find_gpu(gpu), shape, seed=SEED, beside=False))


@cache
def solved(name: str) -> RunOutcome:
    return run(name, lesson_of(name).solution_path)


def hold(name: str, proofs: Iterable[Proof]) -> None:
    made = prove(SHARED, name, proofs)
    assert not [flaw for proof in made for flaw in proof.flaws or ()]
    assert all(proof.holds for proof in made)


@core_with_every_change
def test_its_kernels_and_its_text_are_proven(name: str) -> None:
    hold(name, [proof for proof in PROOFS if proof.name not in LONG])


@pytest.mark.slow
@with_one_compiler
def test_its_numbers_quotes_and_bugs_are_proven(name: str) -> None:
    """Numbers belong to one compiler; with another the tool prints the same sentences with other numbers."""
    long = [proof for proof in PROOFS if proof.name in LONG]
    if compiler() != STORED_WITH:
        quotes = partial(the_tool_prints_what_is_quoted, numbers=False)
        long = [replace(it, flaws=quotes) if it.name == "quotes" else it for it in long if it.name != "numbers"]
    hold(name, long)


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, pytest.param(1, marks=pytest.mark.long)], ids=["half", "the other half"])
@each_in_its_time
def test_another_gpu_changes_the_estimate_alone(name: str, others: int) -> None:
    """Half of the GPUs with every second lesson, the other half with the others."""
    here = solved(name).kernel
    assert here.checked.gates, "a lesson has gates"
    for gpu in sorted(GPUS.keys() - {"h200"})[(int(name[:2]) + others) % 2 :: 2]:
        there = run(name, lesson_of(name).solution_path, gpu=gpu, shape=lesson_of(name).shapes.count).kernel
        assert there.verdict.kind == "passed", (gpu, there.verdict)
        assert there.checked.gates == here.checked.gates
        assert there.checked.counters == here.checked.counters
        assert there.built.resources == here.built.resources
        if there.speed.estimate is not None:
            assert there.speed.estimate.gpu == GPUS[gpu].name
        else:  # a type of numbers that is not estimated; tensor cores that a GPU lacks, or that no block fits
            fits = there.built.occupancy is not None and there.built.occupancy.blocks_per_sm > 0
            assert here.speed.estimate is None or name[3:] in ON_TENSOR_CORES or not fits, gpu
