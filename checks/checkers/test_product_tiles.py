"""Products that read other elements than the copies put there; right kernels in unusual layouts beside them."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.checkers.tile_cases import RIGHT, SHARED, STRANGE, WRONG, Case, Launch
from checks.course.kernel import Kernel
from checks.grading.fixtures import honest
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import tile_sizes
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.simulator import Setting, Simulator
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.judging.verdict import judge


def misread(case: Case) -> Finding | None:
    """Return what is said when the answer is said to be wrong."""
    launch = Launch.of(case)
    _, args = launch.args()
    return launch.kernel().misread(1, 128, args, dynamic_shared=SHARED)


def is_right(case: Case) -> bool:
    """Return whether the simulated product is the right one, bit by bit."""
    launch = Launch.of(case)
    c, args = launch.args()
    ran = launch.kernel().launch(1, 128, args, dynamic_shared=SHARED, setting=Setting(counting=False))
    assert ran.fault is None
    return bool(np.array_equal(c, case.right(launch.a, launch.b)))


@pytest.mark.parametrize("name", RIGHT)
def test_right_layouts_are_not_accused_even_when_asked(name: str) -> None:
    assert is_right(RIGHT[name])
    assert misread(RIGHT[name]) is None


@pytest.mark.parametrize("name", STRANGE)
def test_what_only_the_host_knows_needs_a_wrong_answer(name: str) -> None:
    """The simulator sees a swizzle that does not fit, and the answer is right: nobody may ask then."""
    assert is_right(STRANGE[name])
    assert misread(STRANGE[name]) is not None


@pytest.mark.parametrize("name", WRONG)
def test_wrong_descriptors_are_explained(name: str) -> None:
    case, kind, words = WRONG[name]
    assert not is_right(case)
    found = misread(case)
    assert found is not None
    lines = Launch.of(case).kernel()._source.text.splitlines()
    assert (found.kind, found.severity, found.case) == ("descriptor", "error", kind), found.message
    calls = {call for _, call in found.called_in}
    assert {lines[it - 1].partition("// ")[2] for _, it in calls} == {"products", "copies"}
    assert {"wgmma.mma_async", "cp.async.bulk.tensor"} == {
        word
        for it in (found.line, found.other_line)
        for word in ("wgmma.mma_async", "cp.async.bulk.tensor")
        if it and word in lines[it - 1]
    }
    assert not [it for it in words if it not in found.message], found.message


EDITED: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("wrong_descriptors.toml").read_text())


@cache
def _sources() -> dict[tuple[str, str], str]:
    course = any_course()
    names = ("wgmma", "roles", "persistent", "clusters", "fp8")
    found = {(name, "solution"): course.lesson(name).solution_path.read_text() for name in names}
    return found | {(it.lesson[3:], it.name): it.source for it in honest() if it.lesson[3:] in names}


def _misread(lesson_name: str, source: str) -> tuple[bool, Finding | None]:
    """Return whether the answer is right, and what is said when it is said to be wrong."""
    lesson = any_course().lesson(lesson_name)
    shape = lesson.shapes.count
    lesson = lesson.at(shape)
    compiled = Kernel(lesson_name, lesson, source).compiled()
    problem, grid = Problem(lesson.data, shape, 3), lesson.grids(shape)[0]
    parameters = lesson.launches[0].parameters
    device, trial = Simulator(Setting(counting=False, checking=False)), problem.trial()
    ran = device.launch(compiled, grid, trial.arguments(parameters))
    right = ran.fault is None and judge(problem, trial.answer, tile_sizes(lesson), trial.arrays).passed
    return right, device.misread(compiled, grid, problem.trial().arguments(parameters))


SAMPLE = ("wgmma without the swizzle", "clusters, a step of B too short", "DeepGEMM's style, distances in bytes")


@pytest.mark.parametrize("name", [it if it in SAMPLE else pytest.param(it, marks=pytest.mark.long) for it in EDITED])
def test_wrong_descriptors_of_lessons_and_public_styles(name: str) -> None:
    lesson, kernel, edits, case, words = EDITED[name].values()
    source = _sources()[lesson, kernel]
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    right, found = _misread(lesson, source)
    assert not right
    assert found is not None
    assert (found.case, [it for it in words if it not in found.message]) == (case, []), found.message
    lines = source.splitlines()
    assert found.line is not None
    assert found.other_line is not None
    assert "wgmma" in "".join(lines[found.line - 1 : found.line + 1])  # an asm begins with its predicate
    assert re.search(r"_box\(|cp\.async\.bulk|tma_load|tma_copy", lines[found.other_line - 1]), found.message


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({(it["lesson"], it["kernel"]) for it in EDITED.values()}), ids="/".join)
def test_their_kernels_are_not_accused_even_when_asked(name: tuple[str, str]) -> None:
    assert _misread(name[0], _sources()[name]) == (True, None)
