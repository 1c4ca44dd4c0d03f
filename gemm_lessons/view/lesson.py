"""A run of a lesson -> its pictures: for the kernel, and one to compare it with.

RunOutcome (counters by line, verdict, estimate) --view_of--> View
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gemm_lessons.commands import WAVEFRONT_BYTES, flop_per_byte
from gemm_lessons.course import tile_sizes
from gemm_lessons.engine import Buffer, GpuSpec, Simulator, TensorMap
from gemm_lessons.engine.estimate import Recording, record
from gemm_lessons.engine.pictures import (
    Request,
    TileNotes,
    Tiles,
    Touched,
    barrier_names,
    follow,
    products,
    roles_of,
    timeline_of,
)
from gemm_lessons.engine.sass import Uncountable
from gemm_lessons.gemm import Estimator, Problem, Shape
from gemm_lessons.running import Role, Row, RunOutcome, variant_of
from gemm_lessons.view.owners import Owners, owners
from gemm_lessons.view.record import Dot, Part, Place, Roofline, Side, View

TILES = 6  # least number along K in a timeline


def view_of(outcome: RunOutcome, gpu: GpuSpec) -> View:
    """Return the pictures of a run of ``run_lesson``. Raises ``UnsupportedKernel``."""
    rows = [outcome.kernel, *compared(outcome)]
    depth = max(tile_sizes(row.built.lesson).depth for row in rows if row.built)  # the same for both, to compare
    return View(outcome, tuple(side_of(outcome, row, gpu, depth) for row in rows), _roofline(outcome, gpu))


def compared(outcome: RunOutcome) -> Sequence[Row]:
    """Return the kernels to compare with: the reference once it passes; before the previous lesson's solution."""
    wanted: Role = "reference" if outcome.verdict.kind == "passed" else "previous"
    built = {row.role: row for row in outcome.rows[1:] if row.built is not None}
    found = built.get(wanted) or built.get("previous")
    return [found] if found is not None else []


def side_of(outcome: RunOutcome, row: Row, gpu: GpuSpec, depth: int = 1) -> Side:
    """Return one kernel's pictures. ``depth``: K of a tile; a timeline shows several tiles; 0 omits the timeline."""
    assert row.built is not None
    lesson = row.built.lesson
    shape = outcome.count_shape if lesson.shapes.refusal(outcome.count_shape) is None else lesson.shapes.count
    built = variant_of(row.built, lesson.at(shape))
    lesson = built.lesson
    counters, notes = row.checked.counters, []
    missing: dict[Part, str] = {}
    counts = tuple(count for count in counters.lines if count.file == row.path) if counters else ()
    if counters is None:
        notes.append("There are no counters: the kernel did not finish.")
    notes += [f"{metric}: {why}" for metric, why in counters.inexact.items()][:1] if counters else []
    requests: list[Request] = []
    owned, tiles = None, Tiles()
    problem = Problem(lesson.data, shape, outcome.seed)
    if row.verdict.kind == "timed_out":
        missing["requests"] = "Its memory accesses are not shown: the kernel does not end."
    else:
        for launch, compiled, grid in zip(lesson.launches, built.code.counted, lesson.grids(shape), strict=True):
            arguments = problem.trial().arguments(launch.parameters)
            try:
                found = follow(compiled, grid, arguments)
            except Uncountable as obstacle:
                missing["requests"] = f"Its memory accesses cannot be shown: {obstacle}."
                continue
            requests += [request for request in found.requests if request.file == row.path]
            if any(isinstance(it, TensorMap) for it in arguments):
                notes_of_tiles = TileNotes()
                Simulator().observe(compiled, grid, problem.trial().arguments(launch.parameters), notes_of_tiles)
                tiles = notes_of_tiles.result(row.path)
            if any(isinstance(it, Buffer) and it.name == problem.answer.name for it in arguments):
                owned = _owned(found, problem) or owned
    recording = strips = roles = None
    played = ""
    if not depth:
        pass
    elif row.speed.estimator is None:
        missing["timeline"] = "There is no timeline: only a right kernel that the estimate's model knows has one."
    else:
        recording, played = _play(row.speed.estimator, shape, depth, gpu)
        profile = row.speed.estimator.profiles[0]
        strips = timeline_of(recording, gpu, row.path, profile.span(profile.blocks_per_sm, gpu).busy)
        roles = roles_of(recording, row.path, barrier_names(built.code.counted[0]))
    return Side(
        row=row,
        size=f"at M, N, K = {shape}",
        threads=lesson.grids(shape)[0].threads,
        counts=counts,
        requests=tuple(requests),
        places=tuple(
            Place(name, layout.element.size, (layout.leading, 1) if layout.order == "row" else (1, layout.leading))
            for name, layout in problem.layouts.items()
            if layout.batch == 1 and layout.dimensions == 2
        ),
        owners=owned,
        products=tuple(dict.fromkeys(it for code in built.code.counted for it in products(code.ptx, code.entry))),
        tiles=tiles,
        recording=recording,
        timeline=strips,
        played=played,
        roles=roles,
        missing=missing,
        notes=tuple(notes),
    )


def _play(estimator: Estimator, shape: Shape, depth: int, gpu: GpuSpec) -> tuple[Recording, str]:
    """Play the first launch as the estimate does: the shorter of its two traces with enough tiles along K. ``depth``: K
    of a tile. ``shape`` gives M and N for the name."""
    profile = estimator.profiles[0]
    k, trace = next((it for it in profile.traces if it[0] >= TILES * depth), profile.traces[-1])
    return record(trace, profile.blocks_per_sm, gpu), f"at M, N, K = {replace(shape, k=k)}"


def _owned(found: Touched, problem: Problem) -> Owners | None:
    base = found.bases.get(problem.answer.name)
    return None if base is None else owners(found.stores, problem.answer, base)


def _roofline(outcome: RunOutcome, gpu: GpuSpec) -> Roofline | None:
    """Return the roofline of all kernels in the table that have an estimate."""
    shape = outcome.estimate_shape
    if [factor.element.name for factor in outcome.lesson.data.factors] != ["float32", "float32"]:
        return None  # the data sheet's peak is for fp32
    dots = []
    for row in outcome.rows:
        estimate, estimator = row.speed.estimate, row.speed.estimator
        intensity = flop_per_byte(estimator, shape) if estimator else None
        if estimate is not None and intensity:
            dots.append(Dot(row.label, intensity, estimate.gflops / 1e3))
    if not dots:
        return None
    bandwidth = gpu.sms * WAVEFRONT_BYTES * gpu.clock_hz / 1e12
    return Roofline(gpu.name, shape, gpu.fp32_flops_per_s / 1e12, bandwidth, tuple(dots))
