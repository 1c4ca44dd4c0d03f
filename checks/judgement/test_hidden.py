"""Hidden shapes of a graded run, on which the kernel is also judged and counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.disassembly import Groups, groups_of
from checks.grading.fixtures import cheats, honest
from checks.judgement.near import leave_out_far_shapes
from gemm_lessons.authoring.candidate import kernels_of
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Lesson, tile_sizes
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.records.launch import PAGE, Buffer
from gemm_lessons.engine.simulator import Setting, Simulator
from gemm_lessons.gemm.data import ALIKE, Alike
from gemm_lessons.gemm.far import FarProblem
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape, ShapeError, Shapes, astuple
from gemm_lessons.grading.rubric import LessonRubric, NearMiss
from gemm_lessons.grading.score import score
from gemm_lessons.judging.evidence import Built
from gemm_lessons.judging.gates import CountedLaunch, judge_launches
from gemm_lessons.judging.verdict import CompileFailed, Faulted, GateMissed, WrongAnswer
from gemm_lessons.running import plan as planning
from gemm_lessons.running.checked_shapes import hidden_alike, hidden_also, hidden_and_checked, hidden_checks
from gemm_lessons.running.checking import execute
from gemm_lessons.running.contract import as_json
from gemm_lessons.running.counted_shapes import (
    HEAVY_WAYS,
    LARGE,
    hidden_and_counted,
    hidden_counts,
    hidden_large,
    hidden_ways,
)
from gemm_lessons.running.drawing import MANY_WAYS, MUCH, tile_of
from gemm_lessons.running.far_shapes import (
    BROAD,
    CUBES,
    DEPTH,
    HUGE,
    SPREAD,
    TILE_WAYS,
    hidden_instead,
    hidden_long,
    hidden_sample,
    hidden_shallow,
    hidden_tiles,
    long_stay,
)
from gemm_lessons.running.pipeline import RunOutcome, RunRequest, run_lesson
from gemm_lessons.running.plan import RunPlan
from gemm_lessons.running.rare_blocks import rare_launches
from gemm_lessons.running.rare_sizes import launches_at_rare_sizes, named
from gemm_lessons.running.size_candidates import hidden_candidates

COURSE = any_course()
SEEDS = range(200)
LESSONS = ("naive", "coalesced", "block_tile", "thread_column", "thread_tile", "vector_loads", "double_buffer")


def requested(lesson: Lesson, path: Path, graded: bool = True, seed: int = 5) -> RunRequest:
    return RunRequest(
        COURSE, lesson, path, Simulated(), GPUS["h200"], beside=False, seed=seed, graded=graded, estimating=False
    )


def run(lesson: Lesson, path: Path, graded: bool = True, seed: int = 5) -> RunOutcome:
    return run_lesson(requested(lesson, path, graded, seed))


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_far_shapes(monkeypatch)


@pytest.fixture
def few(near: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out all but two hidden shapes, except where the case named ``clock`` or ``address`` has them all: each
    launch of a graded run finds by itself what its values depend on."""
    if request.node.callspec.params["name"] in ("clock", "address"):
        monkeypatch.undo()
        return
    monkeypatch.setattr(planning, "hidden_and_counted", lambda lesson, seed: ())
    monkeypatch.setattr(planning, "hidden_checks", lambda lesson, seed: hidden_checks(lesson, seed)[1:3])


def slow_except(names: Iterable[str], *quick: str, long: Iterable[str] = ()) -> list[Any]:
    def marked(name: str) -> Any:
        return pytest.param(name, marks=[pytest.mark.slow, *[pytest.mark.long] * (name in long)])

    return [it if it in quick else marked(it) for it in names]


@pytest.mark.parametrize("name", LESSONS)
def test_hidden_shapes_are_allowed_and_cheap_and_not_known(name: str) -> None:
    lesson = COURSE.lesson(name)
    count, known = lesson.shapes.count, (*lesson.shapes.check, lesson.shapes.count)
    drawn = {hidden_counts(lesson, seed) for seed in SEEDS}
    assert len(drawn) >= 50
    for wide, deep in drawn:
        assert lesson.shapes.refusal(wide) is lesson.shapes.refusal(deep) is None
        assert all(wide.m > it.m and wide.n > it.n and deep.k > it.k for it in known)
        assert wide.k < count.k
        assert all(it.m * it.n * it.k <= 2 * count.m * count.n * count.k for it in (wide, deep))
    assert hidden_counts(lesson, 7) == hidden_counts(lesson, 7)


def test_hidden_shapes_are_those_of_earlier_versions() -> None:
    """Old grades can be reproduced: the shapes that a seed draws never change."""
    assert hidden_counts(COURSE.lesson("naive"), 0) == (Shape(159, 155, 30), Shape(30, 29, 95))
    assert hidden_counts(COURSE.lesson("thread_tile"), 0) == (Shape(512, 384, 24), Shape(256, 256, 112))


@pytest.mark.parametrize("name", ["naive", "block_tile", "thread_column"])
def test_a_last_tile_of_one_row_one_column_and_one_k_is_checked(name: str) -> None:
    lesson = COURSE.lesson(name)
    tile = tile_sizes(lesson)
    for seed in range(5):
        ends = {(it.m - tile.rows, it.n - tile.cols, it.k % max(tile.depth, 16)) for it in hidden_checks(lesson, seed)}
        assert (1, 1, 1) in ends


@pytest.mark.parametrize("name", ["any_shape", "epilogue", "split_k"])
def test_whole_tiles_of_k_are_counted_where_k_may_be_any(name: str) -> None:
    lesson = COURSE.lesson(name)
    for seed in range(10):
        counted = hidden_and_counted(lesson, seed)
        depth = tile_sizes(lesson).depth
        most = 32 if name == "split_k" else 4  # tiles, of which one more misses a gate of 1.02
        assert any(it.k % depth == 0 and it.k <= most * depth for it in counted)


def test_how_deep_a_kernel_has_to_be_right_is_not_known() -> None:
    lesson = COURSE.lesson("thread_tile")
    depths = [max(it.k for it in hidden_ways(lesson, seed)) for seed in range(40)]
    assert min(depths) > 900
    assert 3 < sum(it > 2000 for it in depths) < 20


@pytest.mark.parametrize("name", ["any_shape", "epilogue", "two_warps", "split_k", "beat_cublas"])
def test_each_tile_that_a_host_chooses_is_checked_elsewhere(name: str) -> None:
    lesson = COURSE.lesson(name)
    known = (*lesson.shapes.check, lesson.shapes.count)
    tiles = {it: tile_sizes(lesson.at(it)) for it in known}
    for seed in range(20):
        drawn = hidden_checks(lesson, seed)
        wide = tile_sizes(lesson.at(hidden_counts(lesson, seed)[0]))
        assert all(lesson.shapes.refusal(it) is None for it in drawn)
        assert any(it.k > max(shape.k for shape in known) for it in hidden_and_checked(lesson, seed))
        for tile in {*tiles.values()} - {wide}:
            alike = [it for it in known if tiles[it] == tile]
            found = [it for it in drawn if tile_sizes(lesson.at(it)) == tile and it.k <= max(it.k for it in alike)]
            across, down = (
                max(-(-getattr(it, axis) // by) for it in alike) for axis, by in (("n", tile.cols), ("m", tile.rows))
            )
            assert any(it.n > across * tile.cols for it in found)
            assert any(it.m > down * tile.rows for it in found) or down > 100


@pytest.mark.parametrize("name", ["any_shape", "epilogue"])
def test_few_shapes_need_a_kernel_of_their_own_and_a_class_has_all_kinds(name: str) -> None:
    """A kernel may be wrong in one layout with one alignment: no submission shows which ones are drawn for it."""
    lesson = COURSE.lesson(name)
    known = {lesson.at(it).tile for it in (*lesson.shapes.check, lesson.shapes.count)}
    kinds = set[tuple[int, ...]]()
    for seed in range(40):
        counted = {lesson.at(it).tile for it in hidden_and_counted(lesson, seed)}
        checked = {lesson.at(it).tile for it in hidden_and_checked(lesson, seed)}
        assert len(checked - counted - known) <= 5
        fresh = (counted | checked) - known
        assert len(fresh) >= 2
        names = ("TRANS_A", "TRANS_B", "WIDTH_A", "WIDTH_B", "WIDTH_C")
        kinds |= {tuple(tile.defines[it] for it in names) for tile in fresh}
    layouts = [{kind[2:] for kind in kinds if kind[:2] == way} for way in ((0, 0), (0, 1), (1, 0), (1, 1))]
    assert all(len(it) >= 6 for it in layouts)
    assert all({kind[place] for kind in kinds} == {1, 2, 4} for place in (2, 3, 4))


@pytest.mark.parametrize("name", COURSE.names)
def test_each_lesson_is_checked_far_out_and_on_small_shapes(name: str) -> None:
    lesson = COURSE.lesson(name)
    known, steps = (*lesson.shapes.check, lesson.shapes.count), astuple(lesson.shapes.multiple_of)
    assert hidden_checks(lesson, 0) == hidden_checks(lesson, 0)
    for seed in range(20):
        drawn = (*hidden_and_checked(lesson, seed), *hidden_and_counted(lesson, seed))
        assert all(lesson.shapes.refusal(it) is None for it in drawn)
        assert not {*drawn} & {*known}
        for axis, step in enumerate(steps):
            sizes = [astuple(it)[axis] for it in (*drawn, *known)]
            assert max(sizes) > (500 if lesson.shapes.products == 1 else 250)
            assert {size // step % 4 for size in sizes} == {0, 1, 2, 3} or axis < 2  # of much work there is one tile
            if steps == (1, 1, 1) and not lesson.choices:
                assert max(sizes) > 1000
                assert {size % 8 for size in sizes if size < 100} == {*range(8)}
                assert 1 in sizes
        if len(lesson.launches) > 1:  # K tiles that are shared out
            assert max(lesson.at(it).grids(it)[0].blocks for it in drawn) > 15


@pytest.mark.parametrize("name", ["any_shape", "epilogue", "two_warps", "split_k"])
def test_each_layout_and_each_tile_is_counted(name: str) -> None:
    lesson = COURSE.lesson(name)
    shapes = lesson.shapes
    known = (*shapes.check, shapes.count)
    walks = {tile_sizes(lesson.at(it)) for it in known if it.k >= 2 * tile_sizes(lesson.at(it)).depth}
    for seed in range(20):
        drawn = hidden_and_counted(lesson, seed)
        assert drawn == hidden_and_counted(lesson, seed)
        assert all(shapes.refusal(it) is None for it in drawn)
        assert not {*drawn} & {*known}  # a shape that is checked and counted would be counted as another one
        assert walks <= {tile_sizes(lesson.at(it)) for it in (shapes.count, *drawn)}
        sample = hidden_sample(lesson, seed)
        assert sample is not None
        # Blocks of the kernel can be sampled, or not:
        for far in ((*sample.beside, sample.shape), hidden_instead(lesson, seed)):
            assert {it.layout for it in (shapes.count, *drawn, *far)} == set(shapes.layouts)


@pytest.mark.parametrize("name", ["any_shape", "epilogue", "ragged_mma", "split_k"])
def test_each_layout_is_large_far_and_deep_for_some(name: str) -> None:
    """Each layout gets every kind of size, also if another shape of that layout is known."""
    lesson = COURSE.lesson(name)
    large, far, deep = set[str](), set[str](), set[str]()
    for seed in range(60):
        sample = hidden_sample(lesson, seed)
        assert sample is not None
        large.add(hidden_large(lesson, seed).layout)
        far.add(sample.shape.layout)
        deep.add(hidden_instead(lesson, seed)[0].layout)
    assert large == far == deep == set(lesson.shapes.layouts)


@pytest.mark.parametrize("name", ["any_shape", "epilogue", "ragged_mma", "split_k"])
def test_few_variants_of_the_kernel_are_counted(name: str) -> None:
    """Each takes a second to compile, to disassemble and to decode. Sizes that no code names make no difference."""
    lesson = COURSE.lesson(name)
    named = lesson.names_of_reference
    assert named is not None
    assert "TRANS_A" in named
    assert not {"TALL", "ROOM", "SLICES"} & named
    numbers = []
    for seed in range(20):
        sample = hidden_sample(lesson, seed)
        assert sample is not None
        also = (it.shape for it in hidden_also(lesson, seed))
        far = (*sample.beside, sample.shape, *also)
        counted = (lesson.shapes.count, *hidden_and_counted(lesson, seed), *far)
        numbers.append(len({tuple(size for size in lesson.at(it).tile.sizes if size[0] in named) for it in counted}))
    assert max(numbers) <= 6
    assert sum(it <= 4 for it in numbers) >= 10


def test_long_shapes_have_more_blocks_for_each_kernel_that_a_host_chooses() -> None:
    """More along M and along N than any known shape for which it is chosen."""
    lesson = any_course().lesson("two_warps")
    known = (*lesson.shapes.check, lesson.shapes.count)
    for seed in range(20):
        long = hidden_long(lesson, seed, lesson.shapes.layouts[0], lesson.named_at)
        for choice in set(map(lesson.named_at, known)):
            alike = [it for it in known if lesson.named_at(it) == choice]
            assert {lesson.named_at(it) for it in long[choice]} == {choice}
            assert max(it.m for it in long[choice]) > max(it.m for it in alike)
            assert max(it.n for it in long[choice]) > max(it.n for it in alike)


def test_a_contract_may_be_coarser_than_tiles() -> None:
    lesson = COURSE.lesson("thread_tile")
    shapes = Shapes(Shape(256, 384, 64), (Shape(256, 384, 64),), Shape(256, 384, 64))
    for shape in hidden_counts(replace(lesson, shapes=shapes), 1):
        assert shapes.refusal(shape) is None


@pytest.mark.parametrize("name", ["naive", "thread_tile", "epilogue", "split_k"])
def test_no_hidden_shape_is_larger_than_the_contract_allows(name: str) -> None:
    lesson = COURSE.lesson(name)
    known = [*map(astuple, (*lesson.shapes.check, lesson.shapes.count))]
    sizes = [2 * max(axis) for axis in zip(*known, strict=True)]
    small = replace(lesson, shapes=replace(lesson.shapes, at_most=tuple(zip("MNK", sizes, strict=True))))
    deep = replace(lesson, shapes=replace(lesson.shapes, at_most=(("K", DEPTH + 256),)))
    for seed in range(10):
        for one in (small, deep):
            drawn = (*hidden_and_counted(one, seed), *hidden_and_checked(one, seed), *hidden_instead(one, seed))
            assert {one.shapes.refusal(it) for it in drawn} == {None}
        assert hidden_sample(small, seed) is None
        assert (hidden_sample(deep, seed) is None) == (hidden_sample(lesson, seed) is None)


def test_secret_shapes_that_fill_their_tiles_are_counted() -> None:
    lesson = COURSE.lesson("naive")
    secret, small = Shape(63, 95, 31), Shape(5, 6, 7)
    request = RunRequest(COURSE, lesson, lesson.solution_path, Simulated(), GPUS["h200"], beside=False, seed=1)
    request = replace(request, estimating=False)
    known = run_lesson(replace(request, secret=(secret, small)))
    assert known.verdict.kind == "passed"
    found = [it.shape for it in known.kernel.checked.shapes if it.hidden]
    assert found == [secret, small]
    assert known.kernel.checked.counters == run_lesson(request).kernel.checked.counters
    assert [shape for shape, _ in known.kernel.checked.hidden_counters] == [secret]
    hidden = hidden_and_counted(lesson, 1)
    plan = RunPlan.of(replace(request, graded=True, secret=(secret, small, *hidden)))
    assert plan.hidden[:1] == (secret,)
    assert set(hidden) < set(plan.hidden)
    assert plan.secret[0] == small
    with pytest.raises(ShapeError):
        run_lesson(replace(request, lesson=COURSE.lesson("thread_tile"), secret=(secret,)))


@pytest.mark.parametrize("name", COURSE.names)
def test_a_shape_of_several_bands_of_blocks_both_ways_is_counted(name: str) -> None:
    lesson = COURSE.lesson(name)
    for seed in range(20):
        large = hidden_large(lesson, seed)
        assert large == hidden_large(lesson, seed)
        assert large in hidden_and_counted(lesson, seed)
        assert lesson.shapes.refusal(large) is None
        tile = tile_sizes(lesson.at(large))
        tiles = -(-large.m // tile.rows), -(-large.n // tile.cols)
        assert min(tiles) >= (MANY_WAYS if lesson.shapes.products == 1 else HEAVY_WAYS)
        if tile.depth > 1:
            dear = tile.rows * tile.cols * tile.depth >= MUCH
            assert -(-large.k // tile.depth) >= (2 if dear or lesson.launches[1:] else 3)
        if tiles > (MANY_WAYS + 2, MANY_WAYS + 2):
            assert large.m * large.n * large.k < 1.5 * LARGE


@pytest.mark.parametrize("name", COURSE.names)
def test_a_far_shape_is_large_in_all_directions(name: str) -> None:
    lesson = COURSE.lesson(name)
    for seed in range(10):
        sample = hidden_sample(lesson, seed)
        assert sample == hidden_sample(lesson, seed)
        for shape in (*([sample.shape] if sample else []), *hidden_instead(lesson, seed)):
            assert lesson.shapes.refusal(shape) is None
        if sample is None:
            assert lesson.shapes.products > 1 or not lesson.data.multiplies
            continue
        if sample.shape.k < DEPTH:
            assert sample.shape.m * sample.shape.n >= SPREAD
            assert min(sample.shape.m, sample.shape.n) >= BROAD - 256
        else:
            assert min(sample.shape.m, sample.shape.n) > HUGE - 512
        beside = (*sample.beside, *(it.shape for it in hidden_also(lesson, seed)))
        assert max(it.k for it in (sample.shape, *beside)) >= DEPTH
        grids = lesson.at(sample.shape).grids(sample.shape)
        for grid, blocks in zip(grids, sample.blocks, strict=True):
            assert set(blocks) <= set(range(grid.blocks))


@pytest.mark.parametrize("name", COURSE.names)
def test_many_blocks_are_affordable_at_a_shallow_shape(name: str) -> None:
    """The same kernel, as far along M and N."""
    lesson = COURSE.lesson(name)
    if (far := hidden_sample(lesson, 3)) is None or (shallow := hidden_shallow(lesson, far.shape)) is None:
        return
    assert (shallow.m, shallow.n, shallow.layout) == (far.shape.m, far.shape.n, far.shape.layout)
    assert shallow.k < far.shape.k
    assert lesson.at(shallow).tile == lesson.at(far.shape).tile


@pytest.mark.parametrize("name", COURSE.names)
def test_candidates_are_round_related_and_allowed(name: str) -> None:
    lesson = COURSE.lesson(name)
    found = hidden_candidates(lesson, 3)
    assert found == hidden_candidates(lesson, 3)
    assert found != hidden_candidates(lesson, 3, numbers=(77, 1000))
    assert all(lesson.shapes.refusal(it) is None for it in found)
    if found and lesson.shapes.multiple_of == Shape(1, 1, 1):
        assert any(it.n % 1000 == 0 for it in found)
        assert any(it.m == it.n != it.k for it in found)
        assert any(it.m == 4 * it.k for it in found)


@pytest.mark.parametrize("name", COURSE.names)
def test_sizes_of_benchmarks_are_sampled(name: str) -> None:
    """M = N = K, often a power of two, and a deep shape that is large along M and N."""
    lesson = COURSE.lesson(name)
    sides = set()
    for seed in range(10):
        also = hidden_also(lesson, seed)
        assert also == hidden_also(lesson, seed)
        assert all(lesson.shapes.refusal(it.shape) is None for it in also)
        sides |= {it.shape.m for it in also if it.shape.m == it.shape.n == it.shape.k}
        far = hidden_sample(lesson, seed)
        depths = [it.shape.k for it in (*also, *([far] if far else [])) if min(it.shape.m, it.shape.n) >= 1024]
        if far and len(lesson.launches) == 1 and not far.beside:
            assert max(depths) >= DEPTH
    assert sides <= {*CUBES}
    assert bool(sides) == bool(far and lesson.name not in ("12_split_k", "21_clusters"))


@pytest.mark.parametrize("name", COURSE.names)
def test_blocks_that_stay_have_many_tiles_at_one_shape(name: str) -> None:
    lesson = COURSE.lesson(name)
    for seed in range(10):
        stay = long_stay(lesson, seed)
        assert (stay is not None) == (name[3:] in ("persistent", "clusters", "fp8"))
        if stay is not None:
            assert not stay.counted
            tiles = stay.tiles or 0
            assert 9 <= tiles <= 32
            (grid,), tile = lesson.at(stay.shape).grids(stay.shape), tile_of(lesson.at(stay.shape))
            assert stay.shape.m // tile.m * (stay.shape.n // tile.n) == tiles * grid.blocks
            assert stay in hidden_also(lesson, seed)


@pytest.mark.parametrize("name", COURSE.names)
def test_inputs_that_are_alike_have_shapes_of_their_own(name: str) -> None:
    lesson = COURSE.lesson(name)
    for seed in range(5):
        alike = hidden_alike(lesson, seed)
        assert alike == hidden_alike(lesson, seed)
        others = {*lesson.shapes.check, *hidden_and_counted(lesson, seed), *hidden_and_checked(lesson, seed)}
        assert not others & alike.keys()
        assert all(lesson.shapes.refusal(it) is None for it in alike)
        assert all(it.m == it.k for it, kind in alike.items() if kind != "right zero")
        assert all(it.n == it.k for it, kind in alike.items() if kind in ("same", "right zero"))


@pytest.mark.parametrize("alike", ALIKE)
def test_few_numbers_differ_from_those_that_are_alike(alike: Alike) -> None:
    lesson, shape = COURSE.lesson("coalesced"), Shape(30, 40, 50)
    problem = Problem(lesson.data, shape, 7, alike=alike)
    counts = [np.unique(problem.arrays[name], return_counts=True)[1].max() for name in "AB"]
    few = [30 * 50 - counts[0], 50 * 40 - counts[1]]
    assert all(
        0 < it <= 8
        for it, name in zip(few, ("left", "right"), strict=True)
        if alike in ("equal", "same", f"{name} zero")
    )
    assert problem.trial().problem.reference.any()


@pytest.mark.parametrize("alike", ALIKE)
def test_numbers_that_differ_are_not_among_the_first_of_a_line(alike: Alike) -> None:
    lesson, shape = COURSE.lesson("coalesced"), Shape(50, 50, 50)
    for seed in range(40):
        a, b = (Problem(lesson.data, shape, seed, alike=alike).arrays[name].reshape(50, 50) for name in "AB")
        for matrix, other in ((a, "right zero"), (b, "left zero")):
            if alike != other:
                inside = matrix[8:42, 8:42]
                assert (inside != matrix[0, 0]).sum() == (matrix != matrix[0, 0]).sum() > 0
        assert (a[0, 0] == b[0, 0]) == (alike == "same")
        if alike == "same":
            assert (a != b).any()


def test_lines_without_gaps() -> None:
    lesson = COURSE.lesson("any_shape")
    tight = [
        all(
            it.leading == it.length
            for it in Problem(lesson.data, Shape(20, 30, 40), n, gaps=True, rare=True).layouts.values()
        )
        for n in range(60)
    ]
    assert 5 < sum(tight) < 30


def test_what_c_held_before_is_no_whole_number() -> None:
    lesson = COURSE.lesson("epilogue")
    read = 0
    for seed in range(20):
        sample = hidden_sample(lesson, seed)
        problem = FarProblem(lesson.data, sample.shape, seed, tile_sizes(lesson.at(sample.shape)), 1)
        c = next(it for it in problem.arguments(lesson.launches[0].parameters) if it.name == "C")
        assert isinstance(c, Buffer)
        before = c.pages.make(np.arange(4)).view(np.float32)
        if c.initialised:  # C is read; beta is not 0
            read += 1
            assert np.count_nonzero(before == np.floor(before)) < before.size / 100
    assert 0 < read < 20


@pytest.mark.parametrize("name", ["any_shape", "epilogue", "ragged_mma"])
def test_leading_dimensions_far_out(name: str) -> None:
    """16 bits do not hold them, and 32 hold each index."""
    lesson = COURSE.lesson(name)
    seen = set()
    for seed in range(8):
        sample = hidden_sample(lesson, seed)
        problem = FarProblem(lesson.data, sample.shape, seed, tile_sizes(lesson.at(sample.shape)), 1)
        for layout in (problem.layouts[it] for it in "ABC"):
            assert layout.leading > 1 << 16
            assert layout.leading * layout.lines < 1 << 31
            seen.add(layout.leading)
    assert len(seen) > 20


def test_sums_far_out_are_numbers_of_c() -> None:
    """Sums of whole numbers of five bits overflow a C of float16, and a right kernel was wrong there."""
    lesson = COURSE.lesson("ragged_mma")
    for seed in range(4):
        sample = hidden_sample(lesson, seed)
        problem = FarProblem(lesson.data, sample.shape, seed, tile_sizes(lesson.at(sample.shape)), 1)
        right = problem.judged({"C": (np.arange(2), np.zeros((2, PAGE), np.uint8))}).expected
        assert right.size >= 256
        assert np.isfinite(right.astype(np.float16)).all()
        assert right.max() > 16


# What is wrong only far out, by the condition under which C is wrong.
FAR_OUT = {
    "squares": "M >= 192 && N >= 192",
    "large squares": "M >= 4096 && N >= 4096",
    "the last blocks": "row >= 12000 && N >= 12000",
    "deep": "K > 5000 && N > 64",
}


@pytest.mark.parametrize("name", slow_except(FAR_OUT, "squares", "deep", long=["large squares"]))
def test_no_size_is_too_large_to_be_checked(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by shapes that are sampled or only checked, without the counted ones, which take a third of the time."""
    monkeypatch.setattr(planning, "hidden_and_counted", lambda lesson, seed: ())
    lesson = COURSE.lesson("coalesced")
    path = tmp_path / "kernel.cu"
    path.write_text(
        lesson.solution_path.read_text().replace("c(row, col) = acc;", f"c(row, col) = {FAR_OUT[name]} ? 0 : acc;")
    )
    outcome = run(lesson, path)
    assert isinstance(outcome.verdict, WrongAnswer)
    assert all(it.hidden for it in outcome.kernel.checked.shapes if it.kind != "passed")
    assert run(lesson, path, graded=False).verdict.kind == "passed"


# Kernels whose far sample has tensor maps, textures, clusters, several tiles for a block, or several launches.
BY_AREA = {
    "split_k/without_tiles_by_area": "bytes_read",
    "precision/barriers_by_area": "barriers_per_k_tile",
    "wgmma/one_stage_by_area": "tiles_waited_for",
    "persistent/starts_over_by_area": "tiles_waited_for",
    "clusters/starts_over_by_area": "tiles_waited_for",
    "fp8/starts_over_by_area": "tiles_waited_for",
    "two_warps/anyhow_by_area": "texture_bytes",
    "beat_cublas/without_tiles_by_area": "global_reads",
}


# Sampled by what the others use, but for textures.
AS_BEFORE = ("wgmma", "persistent", "fp8", "two_warps", "beat_cublas")


@pytest.mark.parametrize(
    "cheat",
    [
        *slow_except((it for it in BY_AREA if not it.startswith(AS_BEFORE)), "split_k/without_tiles_by_area"),
        *(pytest.param(it, marks=pytest.mark.long) for it in BY_AREA if it.startswith(AS_BEFORE)),
    ],
)
def test_a_way_chosen_by_the_area_of_c_misses_its_gate(cheat: str, tmp_path: Path) -> None:
    """The stored kernel misses it at the far shape alone, where the solution meets every gate."""
    lesson = COURSE.lesson(cheat.partition("/")[0])
    path = tmp_path / "kernel.cu"
    path.write_text(next(it.source for it in cheats() if it.label == cheat))
    for kernel, missed in ((lesson.solution_path, ""), (path, BY_AREA[cheat])):
        request = RunRequest(COURSE, lesson, kernel, Simulated(), GPUS["h200"], beside=False, seed=5)
        plan = RunPlan.of(replace(request, estimating=False, graded=True))
        launch = plan.kernels[0].launches[-1]
        assert launch.purpose == "sample"
        code = plan.workshop.build(launch.lesson, kernel, kernel.read_text())
        assert not isinstance(code, CompileFailed)
        built = Built(launch.lesson, code)
        result = execute(plan, launch, built)
        assert (result.verdict.kind, result.findings, result.counted) == ("passed", (), True)
        assert result.judgement is not None
        names = {**plan.lesson.at(launch.shape).names(launch.shape), "spill_bytes": 0, "stack_bytes": 0}
        gates = judge_launches(lesson.gates, [CountedLaunch(built, result.counters, names)])
        found = {it.id for it in gates if not it.passed}
        assert missed in found if missed else not found


@pytest.mark.parametrize("name", ["split_k", "beat_cublas"])
def test_tiles_of_several_launches(name: str) -> None:
    """Two tiles of M = N = K, two of a shape with many tiles each way, each of which three blocks or more share; they
    differ from seed to seed, and also touch the last rows."""
    lesson = COURSE.lesson(name)
    tile = tile_sizes(lesson)
    seen = set()
    for seed in (*range(40), 77):  # with 77, the first shape of beat_cublas that is drawn has a block for each tile
        cube, far = hidden_tiles(lesson, seed)
        assert hidden_tiles(lesson, seed) == (cube, far)
        assert cube.shape.m == cube.shape.n == cube.shape.k
        assert far.shape.m > (TILE_WAYS - 1) * tile.rows
        assert far.shape.n > (TILE_WAYS - 1) * tile.cols
        assert far.shape.k >= 800
        blocks = lesson.at(far.shape).grids(far.shape)[0].blocks
        assert blocks > 3 * -(-far.shape.m // tile.rows) * -(-far.shape.n // tile.cols)
        for it in (cube, far):
            lesson.allow(it.shape)
            assert it.rows.start % tile.rows == it.cols.start % tile.cols == 0
            assert 0 <= it.rows.start < it.rows.stop <= it.shape.m
            assert 0 <= it.cols.start < it.cols.start + tile.cols < it.cols.stop <= it.shape.n
        seen.add(far.rows.stop == far.shape.m)
    assert seen == {False, True}


def test_a_lesson_whose_last_launch_multiplies_needs_no_tiles() -> None:
    assert {it for it in COURSE.names if hidden_tiles(COURSE.lesson(it), 5)} == {"12_split_k", "26_beat_cublas"}


TILED = {  # stored kernels; whether they are right where M, N and K are large
    "one_piece_less_far": "wrong_answer",
    "a_k_tile_twice_far": "wrong_answer",
    "added_from_the_last_far": "passed",
    "stream_k_with_remainders": "passed",
    "plain_slices": "passed",
}


TWICE = "a_k_tile_twice_far"  # takes as long as one_piece_less_far, which is found in the same way


@pytest.mark.parametrize("name", slow_except(TILED, "one_piece_less_far", "added_from_the_last_far", long=[TWICE]))
def test_a_tile_is_judged_with_all_blocks_that_it_needs(name: str, tmp_path: Path) -> None:
    lesson, path = COURSE.lesson("split_k"), tmp_path / "kernel.cu"
    path.write_text(next(it.source for it in (*cheats(), *honest()) if it.label == f"split_k/{name}"))
    request = RunRequest(COURSE, lesson, path, Simulated(), GPUS["h200"], beside=False, seed=5)
    plan = RunPlan.of(replace(request, estimating=False, graded=True))
    launches = [it for it in plan.kernels[0].launches if it.purpose == "tile"]
    assert len(launches) == 2
    for launch in launches:
        code = plan.workshop.without_machine_code(launch.lesson, path, path.read_text())
        assert not isinstance(code, CompileFailed)
        result = execute(plan, launch, Built(launch.lesson, code))
        assert (result.verdict.kind, result.findings, result.counted) == (TILED[name], (), False)
        assert result.judgement is not None
        assert result.judgement.total == len(launch.tile.rows) * len(launch.tile.cols) if launch.tile else 0


def test_numbers_that_the_code_compares_with_become_sizes(tmp_path: Path) -> None:
    """Among shapes that are drawn, no K has 53 tiles."""
    lesson, path = COURSE.lesson("block_tile"), tmp_path / "kernel.cu"
    right = lesson.solution_path.read_text()
    request = RunRequest(COURSE, lesson, path, Simulated(), GPUS["h200"], beside=False, seed=5)
    depth = tile_sizes(lesson).depth
    for condition, expected in (("K / BK == 53", {53}), ("K > 0", set())):
        path.write_text(right.replace("c(row, col) = acc;", f"c(row, col) = acc + ({condition});"))
        plan = RunPlan.of(replace(request, estimating=False, graded=True))
        launch = plan.kernels[0].launches[-1]
        code = plan.workshop.without_machine_code(launch.lesson, path, path.read_text())
        assert not isinstance(code, CompileFailed)
        others = [it for it, _ in launches_at_rare_sizes(plan, Built(launch.lesson, code))]
        assert {it.shape.k // depth for it in others} == expected


def test_shapes_exceed_each_number_that_the_code_compares_with(tmp_path: Path) -> None:
    """Among shapes that are drawn, no K of this lesson is above 6,200, and no M or N above 33,000."""
    lesson, path = COURSE.lesson("thread_tile"), tmp_path / "kernel.cu"
    right = lesson.solution_path.read_text()
    request = RunRequest(COURSE, lesson, path, Simulated(), GPUS["h200"], beside=False, seed=5)
    cases = {"k0 >= 7000": [True], "block_row >= 40000": [False, False], "k0 >= 700": []}  # counted?
    for condition, expected in cases.items():
        path.write_text(
            right.replace("            float a_frag[TM];", f"            if ({condition}) break; float a_frag[TM];")
        )
        plan = RunPlan.of(replace(request, estimating=False, graded=True))
        launch = plan.kernels[0].launches[-1]
        code = plan.workshop.without_machine_code(launch.lesson, path, path.read_text())
        assert not isinstance(code, CompileFailed)
        most = [max(axis) for axis in zip(*(astuple(it.shape) for it in plan.kernels[0].launches), strict=True)]
        found = []
        for other, counting in rare_launches(plan, launch, Built(launch.lesson, code)):
            sizes = astuple(other.shape)
            if beyond := [size for size, known in zip(sizes, most, strict=True) if size > known]:
                number = int(condition.rpartition(" ")[2])
                assert beyond[0] > number
                assert counting == (sizes[2] > most[2])
                if counting:
                    assert sizes[2] > 1.9 * number, "half of the products are made in the other way"
                found.append(counting)
        assert found == expected


# What a kernel tests -> whether a shape is one where the test holds.
TWO_SIZES: Mapping[str, Callable[[Shape], bool]] = {
    "M % 64 > 60 && N % 64 > 60 && K % 32 > 28 && M > 128 && N > 128": lambda it: (
        it.m % 64 > 60 and it.n % 64 > 60 and it.k % 32 > 28 and it.m > 128 and it.n > 128
    ),
    "M == N + 1 && K > 64": lambda it: it.m == it.n + 1 and it.k > 64,
    "(M & 127) == 77 && gridDim.x == 7": lambda it: it.m % 128 == 77 and -(-it.n // 32) == 7,
    "N % 32 == 31 && M > 3 * N && M % 5 == 2": lambda it: it.n % 32 == 31 and it.m > 3 * it.n and it.m % 5 == 2,
    "M + 2 * N == 3 * K && K > 100": lambda it: it.m + 2 * it.n == 3 * it.k > 300,
    "blockIdx.y > 1 && K / 32 % 2 && gridDim.x > 2": lambda it: it.m > 64 and it.n > 64 and it.k // 32 % 2 == 1,
}


@pytest.mark.parametrize("condition", TWO_SIZES)
def test_a_test_of_several_sizes_at_once_has_a_shape(condition: str, tmp_path: Path) -> None:
    lesson, path = COURSE.lesson("coalesced"), tmp_path / "kernel.cu"
    path.write_text(
        lesson.solution_path.read_text().replace("int k = 0; k < K;", f"int k = {condition} ? 1 : 0; k < K;")
    )
    for seed in range(4):
        request = RunRequest(
            COURSE, lesson, path, Simulated(), GPUS["h200"], beside=False, seed=seed, estimating=False, graded=True
        )
        plan = RunPlan.of(request)
        code = plan.workshop.without_machine_code(lesson, path, path.read_text())
        assert not isinstance(code, CompileFailed)
        known = [it.shape for it in plan.kernels[0].launches]
        found = [it.shape for it, _ in launches_at_rare_sizes(plan, Built(lesson, code))]
        assert any(TWO_SIZES[condition](it) for it in (*known, *found)), seed
        assert all(lesson.shapes.refusal(it) is None for it in found)
        assert not {*known} & {*found}


# What a kernel tests -> whether it holds for a shape and the leading dimensions of A, B and C.
LEADING: Mapping[str, Callable[[Shape, int, int, int], bool]] = {
    "lda == ldb && lda > 64": lambda shape, lda, ldb, ldc: lda == ldb > 64,
    "lda % 32 == 0 && K % 32 != 0 && M > 32": lambda shape, lda, ldb, ldc: (
        lda % 32 == 0 != shape.k % 32 and shape.m > 32
    ),
    "ldc == N + 12": lambda shape, lda, ldb, ldc: ldc == shape.n + 12,
    "ldb > 5000 && ldc < 200 && K < 64": lambda shape, lda, ldb, ldc: ldb > 5000 and ldc < 200 and shape.k < 64,
    "": lambda *_: True,
}


@pytest.mark.parametrize("condition", LEADING)
def test_a_test_of_leading_dimensions_has_a_shape(condition: str, tmp_path: Path) -> None:
    """Leading dimensions are drawn so, and only if the code tests them."""
    lesson, path = COURSE.lesson("any_shape"), tmp_path / "kernel.cu"
    right = lesson.solution_path.read_text()
    path.write_text(right.replace("depth = (K - 1) %", f"depth = {condition} ? 1 : (K - 1) %") if condition else right)
    request = RunRequest(COURSE, lesson, path, Simulated(), GPUS["h200"], beside=False, seed=5)
    plan = RunPlan.of(replace(request, estimating=False, graded=True))
    launches = plan.kernels[0].launches
    variant = next(it.lesson for it in launches if it.purpose == "check" and it.hidden)
    code = plan.workshop.without_machine_code(variant, path, path.read_text())
    assert not isinstance(code, CompileFailed)
    found = [it for it, _ in launches_at_rare_sizes(plan, Built(variant, code))]
    assert bool(found) == bool(condition)
    apart = [(it.shape, [it.layouts(5)[name].leading for name in "ABC"]) for it in (*launches, *found)]
    assert any(LEADING[condition](shape, *leading) for shape, leading in apart)
    assert all(named(it.lesson, plan.words) == named(variant, plan.words) for it in found)
    for launch in found[:1]:
        layouts = launch.problem(5).layouts
        assert {name: layouts[name].leading for name in "ABC"} == dict(launch.leading)


@pytest.mark.parametrize("name", ["naive", "coalesced", "block_tile", "thread_column", "thread_tile", "warp_tile"])
def test_references_need_no_more_shapes(name: str) -> None:
    lesson = COURSE.lesson(name)
    request = RunRequest(
        COURSE, lesson, lesson.solution_path, Simulated(), GPUS["h200"], beside=False, seed=3, estimating=False,
        graded=True,
    )  # fmt: skip
    plan = RunPlan.of(request)
    code = plan.workshop.without_machine_code(lesson, lesson.solution_path, lesson.solution_path.read_text())
    assert not isinstance(code, CompileFailed)
    assert not [*launches_at_rare_sizes(plan, Built(lesson, code))]


@pytest.mark.parametrize("name", COURSE.names)
def test_ragged_lessons_have_shapes_beside_whole_tiles(name: str) -> None:
    """One to three less than whole tiles along each axis at once, of two tiles or more; and one more."""
    lesson = COURSE.lesson(name)
    if lesson.shapes.multiple_of != Shape(1, 1, 1):
        return
    tile = tile_sizes(lesson)
    sides = [size if size > 1 else 16 for size in (tile.rows, tile.cols, tile.depth)]
    for seed in range(6):
        ways = {
            tuple((size + 3) % side for size, side in zip(astuple(it), sides, strict=True))
            for it in hidden_checks(lesson, seed)
            if all(size > side for size, side in zip(astuple(it), sides, strict=True))
        }
        assert any(max(it) < 3 for it in ways)
        assert any(set(it) == {4} for it in ways)
        assert lesson.choices or all({it[axis] for it in ways} >= {0, 1, 2} for axis in range(3))


def test_signs_of_scalars_take_turns() -> None:
    """In each run, alpha and beta are positive and negative, below and above one."""
    lesson = COURSE.lesson("epilogue")
    for seed in range(8):
        request = RunRequest(
            COURSE, lesson, lesson.solution_path, Simulated(), GPUS["h200"], beside=False, seed=seed,
            estimating=False, graded=True,
        )  # fmt: skip
        launches = [
            it for it in RunPlan.of(request).kernels[0].launches if it.hidden and it.purpose in ("check", "count")
        ]
        scalars = [it.problem(seed).scalars for it in launches]
        for name in ("alpha", "beta"):
            values = [float(it[name]) for it in scalars]
            for low, high in ((-16, -1), (-1, 0), (0, 1), (1, 16)):
                assert any(low < it < high for it in values), (seed, name, low)
        assert sum(float(it["alpha"]) == 0 for it in scalars) <= 3


# By each lesson's own way where M, N and K are those of lesson.toml, and by the way of the one before elsewhere.
DISPATCHING = {
    "coalesced": ("naive", "M == 128 && N == 128 && K == 64"),
    "block_tile": ("coalesced", "M == 128 && N == 128 && K == 128"),
    "vector_loads": ("thread_tile", "M == 256 && N == 256 && K == 64"),
}


def dispatching(name: str) -> str:
    before, condition = DISPATCHING[name]
    lines = []
    for source, function in ((COURSE.lesson(name), "well"), (COURSE.lesson(before), "badly")):
        text = source.solution_path.read_text()
        head = text.index('extern "C"')
        body = text[head:].replace('extern "C" __global__ void', "__device__ __forceinline__ void")
        bounds = body[body.index("__launch_bounds__") : body.index("gemm(")]
        lines += [text[:head], body.replace(bounds, "").replace("gemm(", f"{function}(", 1)]
    return "\n".join(
        (
            *lines,
            'extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)',
            f"{{ if ({condition}) well(A, B, C, M, N, K); else badly(A, B, C, M, N, K); }}",
        )
    )


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("name", slow_except(DISPATCHING, "coalesced", "block_tile", long=["vector_loads"]))
def test_the_known_shape_alone_does_not_pass(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(dispatching(name))
    lesson = COURSE.lesson(name)
    graded = run(lesson, path)
    assert isinstance(graded.verdict, GateMissed)
    assert all(gate.hidden for gate in graded.verdict.missed)
    told: Any = as_json(graded)
    shown = {(it["m"], it["n"], it["k"]) for it in told["shapes"] if not it.get("hidden")}
    assert shown == {*map(astuple, (*lesson.shapes.check, lesson.shapes.count))}
    assert any(gate.get("hidden") for gate in told["gates"])
    assert "not the lesson's own" in graded.kernel.hints[0]
    assert run(lesson, path, graded=False).verdict.kind == "passed"


def test_answers_on_the_hidden_shape_count_as_well(tmp_path: Path) -> None:
    lesson = COURSE.lesson("naive")
    hidden = hidden_counts(lesson, 5)
    known = (*lesson.shapes.check, lesson.shapes.count)
    condition = " || ".join(f"(M == {m} && N == {n} && K == {k})" for m, n, k in map(astuple, known))
    path = tmp_path / "kernel.cu"
    path.write_text(
        lesson.solution_path.read_text().replace("c(row, col) = acc;", f"c(row, col) = {condition} ? acc : 0;")
    )
    outcome = run(lesson, path)
    assert isinstance(outcome.verdict, WrongAnswer)
    *right, wrong = outcome.kernel.checked.shapes
    assert [it.shape for it in right] == [*lesson.shapes.check, lesson.shapes.count]
    assert (wrong.shape, wrong.kind, wrong.hidden) == (hidden[0], "wrong_answer", True)


def test_known_shapes_are_first_and_far_ones_last() -> None:
    lesson = COURSE.lesson("naive")
    request = RunRequest(COURSE, lesson, lesson.solution_path, Simulated(), GPUS["h200"], beside=False, seed=5)
    launches = RunPlan.of(replace(request, estimating=False, graded=True)).kernels[0].launches
    sample = hidden_sample(lesson, 5)
    assert sample is not None
    hidden = (hidden_counts(lesson, 5)[0], hidden_large(lesson, 5), *hidden_ways(lesson, 5))
    assert [it.shape for it in launches if not it.hidden] == [*lesson.shapes.check, lesson.shapes.count]
    last = (*hidden_alike(lesson, 5), *(it.shape for it in hidden_also(lesson, 5)), sample.shape)
    assert [it.shape for it in launches if it.hidden] == [*hidden, *hidden_checks(lesson, 5), *last]
    assert [it.hidden for it in launches] == sorted(it.hidden for it in launches)


@pytest.mark.long
def test_what_only_the_far_variant_spills_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """At that shape the kernel gets fewer registers: lesson epilogue's solution spills 60 bytes with this seed."""
    lesson = COURSE.lesson("epilogue")
    monkeypatch.setattr(planning, "hidden_and_counted", lambda lesson, seed: ())
    monkeypatch.setattr(planning, "hidden_checks", lambda lesson, seed: ())
    outcome = run(lesson, lesson.solution_path, seed=1)
    assert outcome.kernel.checked.hidden_counters, "the far shape is counted"
    assert outcome.kernel.built is not None
    assert max(it.resources.spill_bytes for it in outcome.kernel.built.others if it.is_assembled) > 0
    assert outcome.verdict.kind == "passed"


@pytest.mark.parametrize(("method", "verdict"), [("lesson", "timed_out"), ("row by row", "gate_missed")])
def test_a_kernel_that_is_too_slow_is_told_the_gates_that_it_misses(method: str, verdict: str, tmp_path: Path) -> None:
    lesson = COURSE.lesson("coalesced")
    source = lesson.solution_path.read_text().replace("float acc = 0.0f;", "float acc = 0.0f; while (M * N > 99999);")
    if method == "row by row":
        source = source.replace("thread_row = threadIdx.x / BN", "thread_row = threadIdx.x % BM")
        source = source.replace("thread_col = threadIdx.x % BN", "thread_col = threadIdx.x / BM")
    path = tmp_path / "kernel.cu"
    path.write_text(source)
    device = Simulated(Simulator(Setting(budget=50_000)))
    request = RunRequest(COURSE, lesson, path, device, GPUS["h200"], beside=False, seed=5, graded=True)
    outcome = run_lesson(replace(request, estimating=False))
    assert outcome.verdict.kind == verdict
    told: Any = as_json(outcome)
    scored = score(told, lesson, LessonRubric(), NearMiss())
    if verdict == "timed_out":
        assert "does not finish on a shape that the lesson does not name" in scored.message
        return
    assert "timeout" not in {it["kind"] for it in told["findings"]}
    assert scored.message.startswith("right on every shape that it finished within the limits, but not by the lesson's")
    assert any("right values, look at them" in line for line in scored.look_at)


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("name", ["coalesced", "thread_tile"])
def test_right_answers_on_small_shapes_alone_do_not_pass(name: str, tmp_path: Path) -> None:
    lesson = COURSE.lesson(name)
    longest = max(shape.k for shape in (*lesson.shapes.check, lesson.shapes.count))
    path = tmp_path / "kernel.cu"
    path.write_text(re.sub(r"(k0?) < K;", rf"\1 < min(K, {longest});", lesson.solution_path.read_text()))
    assert isinstance(run(lesson, path).verdict, WrongAnswer)
    assert run(lesson, path, graded=False).verdict.kind == "passed"


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", ["if (__activemask() != ~0u) acc = 1.0f;", "__activemask();"])
def test_lanes_that_run_together_are_noted_where_they_decide(name: str, tmp_path: Path) -> None:
    lesson = COURSE.lesson("coalesced")
    path = tmp_path / "kernel.cu"
    path.write_text(lesson.solution_path.read_text().replace("float acc = 0.0f;", f"float acc = 0.0f; {name}", 1))
    outcome = run(lesson, path)
    assert any(it.kind == "active_lanes" and it.severity == "note" for it in outcome.kernel.checked.findings) == (
        "if" in name
    )


ASKING = {
    "clock": "clock64() < 0",
    "smid": "smid() > 1000000",
    "envreg": "environment() == 12345",
    "globaltimer": "in_a_comment() == 12345",
}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", ASKING)
def test_what_only_one_machine_answers_is_not_asked(name: str, tmp_path: Path) -> None:
    lesson = COURSE.lesson("coalesced")
    path = tmp_path / "kernel.cu"
    asks = (
        '__device__ unsigned smid() { unsigned n; asm volatile("mov.u32 %0, %%smid;" : "=r"(n)); return n; }\n'
        '__device__ unsigned environment() { unsigned n; asm("mov.u32 %0, %%envreg1;" : "=r"(n)); return n; }\n'
        "__device__ unsigned in_a_comment() { unsigned n;"
        ' asm("/* // */ mov.u32 %0, %%globaltimer_lo;" : "=r"(n)); return n; }\n'
    )
    source = lesson.solution_path.read_text().replace('extern "C"', asks + 'extern "C"', 1)
    path.write_text(source.replace("float acc = 0.0f;", f"float acc = 0.0f; if ({ASKING[name]}) return;", 1))
    outcome = run(lesson, path)
    assert isinstance(outcome.verdict, Faulted)
    assert outcome.verdict.finding.kind == "machine_dependent"
    assert f"%{name}" in outcome.verdict.finding.message
    assert outcome.verdict.finding.line is not None


HEAD = """
__device__ unsigned clock_low() { unsigned n; asm volatile("mov.u32 %0, %%clock;" : "=r"(n)); return n; }
__device__ unsigned ended;
__device__ volatile int again;
__device__ bool ends_last()
{
    const unsigned last = gridDim.x * gridDim.y - 1;
    return threadIdx.x == 0 && atomicInc(&ended, last) == last;
}
"""
# What a kernel may read: the statement, and the words of the finding, or none if it decides nothing.
READ = {
    "clock": ("if (clock_low() == 12345) acc = 1.0f;", "reads the clock (%clock)"),
    "clock by a barrier": ("if (__syncthreads_or(clock_low() == 12345)) acc = 1.0f;", "reads the clock (%clock)"),
    "unused clock": ("clock_low();", ""),
    "address": ("if (((unsigned long long)C >> 21) % 1000 == 7) acc = 1.0f;", "where buffers are"),
    "order": ("if (A > B) acc = 1.0f;", "where buffers are"),
    "distance": ("if ((size_t)B - (size_t)A < 1ull << 35) acc = 1.0f;", "where buffers are"),
    "alignment": ("if ((size_t)C & 15) acc = 1.0f;", ""),
    "null": ("if (C == nullptr) return;", ""),
    "end of a buffer": ("for (const float *p = C; p < C + M * N; p += 4096) if (p == C - 1) acc = 1.0f;", ""),
    "time": ("const char *t = __TIME__; if (t[4] == '7') acc = 1.0f;", "depends on __TIME__"),
    "cut": ("const char *t = __TI\\\nME__; if (t[4] == '7') acc = 1.0f;", "depends on __TIME__"),
    "joined": ("\n#define JOIN(a, b) a##b\nif (JOIN(__DA, TE__)[0] == 'D') acc = 1.0f;", "depends on a macro"),
    "joined from the left": ("\n#define JOIN(a, b) a##b\nif (JOIN(__, TIME__)[4] == '7') acc = 1.0f;", "a macro"),
    "joined names": ("\n#define JOIN(a, b) a##_##b\nfloat JOIN(of, row) = 0.0f; acc += of_row;", ""),
    "earlier launch": ("if (again) acc = 1.0f; if (ends_last()) again = 1;", "what an earlier launch left"),
    "work of a later launch": (
        "if (again) for (int n = 0; n < K; n++) acc += 0.0f * A[(row * 7 + n) % (M * K)]; if (ends_last()) again = 1;",
        "what an earlier launch left",
    ),
    "counter that starts over": ("ends_last();", ""),
    "unused date": ("const char *t = __DATE__; (void)t;", ""),
}


def reading(name: str, folder: Path) -> Path:
    """Write the kernel that reads this."""
    path = folder / "kernel.cu"
    source = COURSE.lesson("coalesced").solution_path.read_text().replace('extern "C"', HEAD + 'extern "C"', 1)
    path.write_text(source.replace("float acc = 0.0f;", f"float acc = 0.0f; {READ[name][0]}", 1))
    return path


@pytest.fixture(scope="module")
def readers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Groups:
    def compiled(name: str) -> list[Compiled]:
        return kernels_of(requested(COURSE.lesson("coalesced"), reading(name, tmp_path_factory.mktemp("reading"))))

    return groups_of(
        request, tmp_path_factory, "test_what_differs_elsewhere_may_be_read_but_not_matter", "name", compiled
    )


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "name", slow_except(READ, "clock", "clock by a barrier", "address", "cut", "joined names", "earlier launch")
)
def test_what_differs_elsewhere_may_be_read_but_not_matter(name: str, tmp_path: Path, readers: Groups) -> None:
    readers.need(name)
    outcome = run(COURSE.lesson("coalesced"), reading(name, tmp_path))
    if not (words := READ[name][1]):
        assert outcome.verdict.kind == "passed"
        return
    assert isinstance(outcome.verdict, Faulted)
    assert outcome.verdict.finding.kind == "machine_dependent"
    assert words in outcome.verdict.finding.message
