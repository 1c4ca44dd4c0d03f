"""The blocks that a tile of C needs, where a launch adds what blocks of the launches before it leave.

    the tile's words of C -> the blocks of the last launch that store there -> the words of scratch that these read
        -> the blocks of the launch before that store there -> ... -> all of them run, first launch first; C is judged

The words that blocks store are computed for all blocks at once, without their products (``Simulator.owners``). That
fails if a block waits for another one, so blocks run alone. The words that a block reads follow from a run on
uninitialised scratch.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gemm_lessons.course import tile_sizes
from gemm_lessons.gemm import FarProblem
from gemm_lessons.judging import Built, Passed
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.outcome import LaunchResult
from gemm_lessons.running.plan import LaunchPlan, RunPlan
from gemm_lessons.running.sampling import ended, judged, not_judged

MUCH = 8  # products of all the blocks / products of the tile and of two equal shares, at most


def run_tile(plan: RunPlan, launch: LaunchPlan, built: Built) -> LaunchResult:
    """Run all blocks that a tile of C needs, and judge the tile. Where they cannot be known, whole shapes must do."""
    assert launch.tile is not None
    lesson, code, (rows, cols) = launch.lesson, variant_of(built, launch.lesson).code.counted, _ranges(launch)
    problem = FarProblem(lesson.data, launch.shape, plan.seed, tile_sizes(lesson), 1, None)
    simulator = plan.device.simulator.uncounted
    answer = lesson.data.answer.name
    wanted: dict[str, np.ndarray[Any, Any]] = {answer: problem.words_of_tile(rows, cols)}
    scratch = {name for name, layout in problem.layouts.items() if layout.role == "scratch"}
    launches = [*zip(code, launch.grids, lesson.launches, strict=True)]
    chosen: list[tuple[int, ...]] = []
    for number, (kernel, grid, its) in reversed([*enumerate(launches)]):
        arguments = problem.arguments(its.parameters)
        blocks = simulator.owners(kernel, grid, arguments, wanted)
        if blocks is None:
            return _left(launch, "which blocks store a tile follows from memory")
        if number == 0 and len(blocks) * launch.operations > 2 * grid.blocks * _most(launch):
            return _left(launch, "a tile needs many blocks")
        chosen.insert(0, blocks)
        if not number or not blocks:
            continue
        ran = simulator.sample(kernel, grid, arguments, blocks, alone=True)
        if ran.dependent or not ran.blocks:
            return _left(launch, ran.dependent or "what a block reads follows from memory")
        for name in scratch & ran.touched.keys():
            words = problem.words_of_pages(name, ran.touched[name][0])
            wanted[name] = words | wanted[name] if name in wanted else words
    for (kernel, grid, its), blocks in zip(launches, chosen, strict=True):
        if not blocks:
            continue
        ran = simulator.sample(kernel, grid, problem.arguments(its.parameters), blocks, alone=True)
        if ran.dependent:
            return _left(launch, ran.dependent)
        if fault := ran.fault or problem.damage(ran.touched, ran.stored):
            return ended(launch.shape, fault)
        problem.keep(ran.touched)
    return judged(launch.shape, problem.judged_tile(rows, cols))


def _left(launch: LaunchPlan, why: str) -> LaunchResult:
    """Return the result of a tile whose blocks cannot be known."""
    return LaunchResult(launch.shape, Passed(), findings=(not_judged(why),), hidden=True)


def _ranges(launch: LaunchPlan) -> tuple[range, range]:
    assert launch.tile is not None
    return launch.tile.rows, launch.tile.cols


def _most(launch: LaunchPlan) -> float:
    """Return the multiply-adds of the blocks that a tile needs, at most."""
    tile = prod(map(len, _ranges(launch))) * launch.shape.k
    return MUCH * (tile + launch.operations / launch.grids[0].blocks)
