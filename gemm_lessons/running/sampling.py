"""Some blocks of each launch at a far shape: run them, and judge what they stored in C.

    LaunchPlan with a FarSample --sampled--> LaunchResult, or why these blocks cannot be judged

Where a launch adds what blocks of the launches before it leave, all blocks run that a tile of C needs (``run_tile``):

    the tile's words of C -> the blocks of the last launch that store there -> the words of scratch that these read
        -> the blocks of the launch before that store there -> ... -> all of them run, first launch first; C is judged

The words that blocks store are computed for all blocks at once, without their products (``Simulator.owners``). That
fails if a block waits for another one, so blocks run alone. The words that a block reads follow from a run on
uninitialised scratch.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemm_lessons.course import tile_sizes
from gemm_lessons.devices import stage
from gemm_lessons.engine import Counters, Finding, HostVariable
from gemm_lessons.engine.records import Quoted, SampledBlocks, added, buffers_of
from gemm_lessons.gemm import FarProblem, Sampled, Shape
from gemm_lessons.judging import Built, Passed, Verdict, WrongAnswer, judge_sample, stopped
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.outcome import LaunchResult
from gemm_lessons.running.plan import LaunchPlan, RunPlan

DOUBLES = re.compile(r"^\s*(?:@\S+\s+)?(?:fma|mul|add)\.(?:\w+\.)*f64\b", re.M)
DOUBLE = 8  # bytes
LEFT_TO_OTHERS = "a block leaves elements to others"
COUNTER = range(4, 65, 4)  # bytes of a variable that may count blocks
MIDDLE = (0.25, 0.75)  # of a launch's blocks, these shares
MUCH = 8  # products of all the blocks / products of the tile and of two equal shares, at most


def judged(shape: Shape, stored: Sampled | None, counters: Counters | None = None) -> LaunchResult:
    """Return the result of blocks that stored these elements of C (None: not judged), and ``counters`` if counted."""
    judgement = judge_sample(stored) if stored is not None else None
    verdict: Verdict = Passed() if judgement is None or judgement.passed else WrongAnswer(shape, judgement)
    its = Counters() if counters is None else counters
    return LaunchResult(shape, verdict, judgement, counters=its, hidden=True, counted=counters is not None)


def ended(shape: Shape, fault: Finding) -> LaunchResult:
    """Return the result of a hidden shape at which the kernel was stopped."""
    return LaunchResult(shape, stopped(shape, fault), fault=fault, hidden=True)


def not_judged(why: str) -> Finding:
    """Return the note for the teacher on blocks that cannot be judged."""
    return Finding("not_sampled", "note", facts=Quoted(why))


def sampled(plan: RunPlan, launch: LaunchPlan, built: Built, counting: bool = True) -> LaunchResult | str:
    """Run some blocks of each launch and judge what they stored; return why if they cannot be judged.

    Where blocks store less than an equal share of C, block 0 is run to find out why: if it depends on others or does
    more than its share, the sample cannot be judged. Of a kernel with products in double precision, which are simulated
    slowly, one block of each launch is run; if a launch must run whole, the sample cannot be judged.
    """
    assert launch.sample is not None
    code = variant_of(built, launch.lesson).code
    blocks = launch.sample.blocks
    if launch.lesson.data.accumulate.size < DOUBLE and any(DOUBLES.search(it.ptx) for it in code.counted):
        if len(blocks) > 1 and any(len(it) > 1 for it in blocks):
            return "it computes in double precision, which takes long"
        blocks = tuple(it[:1] for it in blocks)  # as much work as the deep shape in place of a sample
    ran, stored = _some_blocks(plan, launch, built, blocks, counting)
    if ran.dependent and _is_right_alone(plan, built):
        ran, stored = _some_blocks(plan, launch, built, blocks, counting, alone=True)
        if stored is not None and not stored.is_even:
            ran = SampledBlocks(dependent=LEFT_TO_OTHERS)
    why, fault = ran.dependent, ran.fault
    if fault is None and stored is not None and not stored.is_even:
        why, fault = _why_uneven(plan, launch, built, stored)
    if fault is not None:
        return ended(launch.shape, fault)
    return why or judged(launch.shape, stored, ran.counters if counting else None)


def _why_uneven(plan: RunPlan, launch: LaunchPlan, built: Built, stored: Sampled) -> tuple[str, Finding | None]:
    """Return why blocks ``stored`` another share of C than an equal one, empty if no block stores more; or the fault of
    block 0. It is run where all blocks together have the least work, and at this shape if that does not explain it: a
    block that computes all of C takes long where C is large."""
    if stored.rows.size > stored.owed:
        return LEFT_TO_OTHERS, None
    sampled = [it for it in plan.kernels[0].launches if it.sample is not None]
    smallest = min(sampled, key=lambda it: it.shape.m * it.shape.n * it.shape.k, default=launch)
    for other in (smallest, launch):
        assert other.sample is not None
        blocks = [it if isinstance(it, range) else (0,) for it in other.sample.blocks]
        ran, of_first = _some_blocks(plan, other, built, blocks, counting=False)
        if ran.fault is not None or ran.dependent:
            return ran.dependent, ran.fault
        if of_first is not None and of_first.rows.size > of_first.owed:
            return LEFT_TO_OTHERS, None
    return "", None


def _is_right_alone(plan: RunPlan, built: Built) -> bool:
    """Tell whether blocks that run alone store their share of C, and all of it is right, at the first shape that is
    sampled beside the far one: an atomic or a loop that may wait for other blocks does not matter there."""
    launch = next((it for it in plan.kernels[0].launches if it.sample in plan.also), None)
    if launch is None or launch.sample is None:
        return False
    ran, stored = _some_blocks(plan, launch, built, launch.sample.blocks, counting=False, alone=True)
    if ran.dependent or ran.fault or stored is None or not stored.is_even:
        return False
    return judge_sample(stored).passed


def sampled_late(plan: RunPlan, launch: LaunchPlan, built: Built) -> LaunchResult | None:
    """Run a sample as if about half of the blocks had run before, each of which adds to ``__device__`` counters what
    the first one adds. Return None without such counters, or if a block then does not have its share."""
    code = variant_of(built, launch.lesson).code.counted[0]
    variables = [it for it in plan.device.simulator.device_variables(code) if it.size in COUNTER]
    values = [np.frombuffer(it.initial.ljust(it.size, b"\0"), "u4").copy() for it in variables]
    counters = [HostVariable(it.name, value) for it, value in zip(variables, values, strict=True)]
    if not counters or launch.sample is None or len(launch.grids) > 1:
        return None
    begin, blocks = [it.array.copy() for it in counters], launch.sample.blocks
    _some_blocks(plan, launch, built, blocks, counting=False, alone=True, symbols=counters)
    steps = [it.array - before for it, before in zip(counters, begin, strict=True)]
    if not any(step.any() for step in steps):
        return None
    earlier = random.Random(plan.seed).uniform(*MIDDLE) * launch.grids[0].blocks
    for it, before, step in zip(counters, begin, steps, strict=True):
        it.array[...] = before + step * np.uint32(earlier)
    ran, stored = _some_blocks(plan, launch, built, blocks, counting=True, alone=True, symbols=counters)
    if ran.dependent or ran.fault or stored is None or not stored.is_even:
        return None
    return judged(launch.shape, stored, ran.counters)


def _some_blocks(
    plan: RunPlan,
    launch: LaunchPlan,
    built: Built,
    blocks: Sequence[Sequence[int]],
    counting: bool,
    alone: bool = False,
    symbols: Sequence[HostVariable] = (),
) -> tuple[SampledBlocks, Sampled | None]:
    """Run some blocks of each launch; also return what they stored in C, None if that cannot be judged.

    A launch after one of which not all blocks ran reads what the others would have left. It is counted, not judged.
    """
    assert launch.sample is not None
    lesson, code = launch.lesson, variant_of(built, launch.lesson).code.counted
    number = max(map(len, blocks)) if len(blocks) == 1 else 1
    problem = FarProblem(lesson.data, launch.shape, plan.seed, tile_sizes(lesson), number, launch.sample.tiles)
    simulator = plan.device.simulator if counting else plan.device.simulator.uncounted
    done: list[SampledBlocks] = []
    stored: Sampled | None = None
    partial_buffers: set[str] = set()
    with stage("check", str(launch.shape)):
        for kernel, grid, its, chosen in zip(code, launch.grids, lesson.launches, blocks, strict=False):
            arguments = problem.arguments(its.parameters)
            ran = simulator.sample(kernel, grid, arguments, chosen, alone, symbols)
            outputs = {it.name for it in buffers_of(arguments) if it.output}
            is_judged = partial_buffers.isdisjoint(outputs)
            if ran.fault and not is_judged:
                return SampledBlocks(dependent="a launch needs what blocks of another leave"), None
            if ran.fault or ran.dependent:
                return ran, None
            if damage := problem.damage(ran.touched, ran.stored):
                return replace(ran, fault=damage), None
            if is_judged and lesson.data.answer.name in outputs:
                stored = problem.judged(ran.touched, ran.blocks)
            if len(chosen) < grid.blocks:
                partial_buffers |= outputs
            problem.keep(ran.touched)
            done.append(ran)
    if stored is not None and not stored.rows.size and launch.sample.tiles is None:
        stored = None  # a later launch stores C
    return replace(done[-1], counters=added([it.counters for it in done])), stored


def run_tile(plan: RunPlan, launch: LaunchPlan, built: Built) -> LaunchResult:
    """Run all blocks that a tile of C needs, and judge the tile. Where they cannot be known, whole shapes must do."""
    assert launch.tile is not None
    rows, cols = launch.tile.rows, launch.tile.cols
    lesson, code = launch.lesson, variant_of(built, launch.lesson).code.counted
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
        most = MUCH * (len(rows) * len(cols) * launch.shape.k + launch.operations / launch.grids[0].blocks)
        if number == 0 and len(blocks) * launch.operations > 2 * grid.blocks * most:
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
