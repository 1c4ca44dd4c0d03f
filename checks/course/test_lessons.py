"""Every lesson of the course keeps what a lesson promises: the proofs of ``gemm-lessons dev check``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from typer.main import get_group

from checks.conftest import STORED_WITH, compiler
from gemm_lessons.authoring.candidate import Shared
from gemm_lessons.authoring.pitfalls import the_tool_prints_what_is_quoted
from gemm_lessons.authoring.prove import PROOFS, Proof, prove_lesson
from gemm_lessons.cli.app import whole
from gemm_lessons.course.folder import Course, packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS, find_gpu
from gemm_lessons.report.screen import printed
from gemm_lessons.running.pipeline import RunOutcome, RunRequest, run_lesson

COURSE = Course(packaged_course().root)
SHARED = Shared.of(COURSE, printed, get_group(whole()).commands)
SEED = 20261121
LONG = ("numbers", "quotes", "bugs")  # proofs that many runs go into
ON_TENSOR_CORES = ("tensor_cores", "async_copy", "mma", "precision")
# With every change a lesson's pitfalls run once: with the newest versions up to double_buffer, and with the oldest ones
# (``checks/versions.py``) those of two lessons behind it, where each takes as long as three of the others. The others'
# are proven with the long tests alone; their kernels and texts with the oldest versions, too. Kernels and texts of the
# core are proven with the newest versions, and every second one with the oldest, too.
CORE = [name for name in COURSE.names if int(name[:2]) < 10]
SHARES = 10  # of the GPUs: a lesson has one of these with every change
OFTEN = ("async_copy", "wgmma")  # one that runs on many GPUs, and one that a single architecture runs


def of_the_course(
    core: Sequence[pytest.MarkDecorator] = (),
    behind: Sequence[pytest.MarkDecorator] = (),
    seldom: Sequence[pytest.MarkDecorator] = (),
    odd: Sequence[pytest.MarkDecorator] = (),
) -> pytest.MarkDecorator:
    """A test of each lesson, with these marks; some after the core, and its odd ones, have others, too."""
    marks = {name: [*core, *(odd if int(name[:2]) % 2 else ())] for name in CORE}
    marks |= {name: [*behind, *(seldom if name[3:] not in OFTEN else ())] for name in COURSE.names if name not in CORE}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks[name]) for name in COURSE.names])


each_in_its_time = of_the_course(behind=[pytest.mark.long])
with_one_compiler = of_the_course([pytest.mark.newest], [pytest.mark.long], [pytest.mark.newest])
core_with_every_change = of_the_course(behind=[pytest.mark.slow, pytest.mark.long], odd=[pytest.mark.newest])


def lesson_of(name: str) -> Lesson:
    return load_lesson(COURSE.lessons_dir / name)


def counted(name: str, gpu: str = "h200") -> RunOutcome:
    """A run of the solution on its counting shape."""
    lesson = lesson_of(name)
    on = Simulated(), find_gpu(gpu), lesson.shapes.count
    return run_lesson(RunRequest(COURSE, lesson, lesson.solution_path, *on, seed=SEED, beside=False))


def hold(name: str, proofs: Iterable[Proof]) -> None:
    made = prove_lesson(SHARED, name, proofs)
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
@pytest.mark.parametrize("share", [0, *(pytest.param(it, marks=pytest.mark.long) for it in range(1, SHARES))])
@each_in_its_time
def test_another_gpu_changes_the_estimate_alone(name: str, share: int) -> None:
    """A tenth of the GPUs with each lesson, the next tenth with the next: each GPU runs a lesson of the core."""
    here = counted(name).kernel
    assert here.checked.gates, "a lesson has gates"
    for gpu in sorted(GPUS.keys() - {"h200"})[(int(name[:2]) + share) % SHARES :: SHARES]:
        there = counted(name, gpu).kernel
        assert there.verdict.kind == "passed", (gpu, there.verdict)
        assert there.checked.gates == here.checked.gates
        assert there.checked.counters == here.checked.counters
        assert there.built.resources == here.built.resources
        if there.speed.estimate is not None:
            assert there.speed.estimate.gpu == GPUS[gpu].name
        else:  # a type of numbers that is not estimated; tensor cores that a GPU lacks, or that no block fits
            fits = there.built.occupancy is not None and there.built.occupancy.blocks_per_sm > 0
            refused = there.speed.refused or name[3:] in ON_TENSOR_CORES or not fits
            assert here.speed.estimate is None or refused, gpu
