"""From one multiprocessor to a launch: waves, memory, launch, limiter; by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from checks.compiling import must_compile
from checks.course.tables import tables
from checks.estimate.test_timeline import FREE, Line, ffma, lds, shared, trace
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import tile_sizes
from gemm_lessons.devices.device import BuildTarget
from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.estimate import profile as loop_profile
from gemm_lessons.engine.estimate import timeline
from gemm_lessons.engine.estimate.chip import LAUNCH_US, NEXT_US
from gemm_lessons.engine.hardware.sheets import GPUS, GpuSpec, buildable, pipes_of
from gemm_lessons.engine.ptx.records import Kernel
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.sass import trace as trace_module
from gemm_lessons.engine.sass.trace import Trace, Traceable, Traffic
from gemm_lessons.gemm.profile import PLAIN, Movement, Profile, Subject, longer, profile_of, traced_shape
from gemm_lessons.gemm.shapes import Shape, TileSizes
from gemm_lessons.gemm.time_model import Estimate, Estimator, estimate_at, in_a_row, left_in_l2
from gemm_lessons.judging.verdict import CompileFailed
from gemm_lessons.running.builder import Builder
from gemm_lessons.running.estimating import estimator_of, movement_of, sharing_of, subject_of

H200 = GPUS["h200"]
SMALL = Shape(1024, 1024, 1024)


def profile(loop: list[Line], warps: int = 8, blocks: int = 2) -> Profile:
    """``loop`` for every k."""

    def at(k: int) -> tuple[int, Trace]:
        return k, trace(loop * k, warps, blocks)

    return Profile(lambda: (at(8), at(16)), blocks_per_sm=blocks, tile_rows=128, tile_cols=128)


def estimate(of: Profile, blocks: int, k: int = 1000, gpu: GpuSpec = H200) -> Estimate:
    return estimate_at(of, Shape(1, 1, k), (blocks, 1, 1), gpu)


@pytest.mark.parametrize(("opcode", "slower"), [("HMMA.16816.F32", True), ("DMMA.16x8x16", False)])
def test_tensor_cores_lower_the_clock(opcode: str, slower: bool) -> None:
    """Only if most multiprocessors use them; tensor cores of fp64 do not lower it."""
    line: Line = (f"{opcode} R8, R40, R44, R8", FREE, None)
    cold = replace(H200, tensor_clock_hz=None)
    ratio = H200.clock_hz / 1.755e9 if slower else 1.0

    def takes(blocks: int, gpu: GpuSpec) -> float:
        return estimate(profile([line] * 4), blocks, gpu=gpu).parts["latency"]

    assert takes(264, H200) == pytest.approx(ratio * takes(264, cold))
    assert takes(64, H200) == takes(64, cold)


def test_full_pipes_by_hand() -> None:
    """8 warps x 64 multiply-adds per k: 128 clocks of each scheduler; two blocks at a time."""
    it = estimate(profile(ffma(64)), 132 * 8)
    assert it.time_us == pytest.approx(LAUNCH_US + 8 * 128 * 1000 / 1980, rel=0.01)
    assert it.limiter in ("fp32", "issue")
    assert it.gflops == pytest.approx(2 * 1000 / it.time_us / 1e3)


def test_blocks_come_in_whole_waves() -> None:
    of = profile(ffma(64))
    times = [estimate(of, blocks).parts["latency"] for blocks in (1, 132, 133, 264, 265)]
    assert times[0] == times[1] < times[2] == times[3] < times[4]
    assert times[4] == pytest.approx(times[2] + times[0])


def test_blocks_overlap_where_k_is_short() -> None:
    """What a full wave saves is asked for once, and no unit works for longer than there is time."""
    stores: list[Line] = [
        ("STG.E.128 [R2.64], R8", FREE, Traffic("global", False, 4, 4, range(16 * i, 16 * i + 16))) for i in range(128)
    ]

    def at(k: int) -> tuple[int, Trace]:
        lines = [*ffma(64) * k, *stores]
        both = trace(lines, 4, 2)
        return k, replace(both, warps=(both.warps[0][: 64 * k],) * 4 + both.warps[4:])

    of = Profile(lambda: (at(32), at(64)), blocks_per_sm=2, tile_rows=128, tile_cols=128)
    one, many = (estimate(of, blocks, k=64) for blocks in (264, 264 * 8))
    saved = of.overlap(H200) * 1e6 / H200.clock_hz
    assert saved > 0.5
    assert many.parts["latency"] == pytest.approx(8 * one.parts["latency"] - 7 * saved)
    assert many.parts["latency"] >= max(many.parts["l2"], many.parts["fp32"])
    deep = estimate(of, 264 * 8, k=4096)
    assert deep.parts["latency"] == pytest.approx(8 * estimate(of, 264, k=4096).parts["latency"]), "nobody asks"


def test_one_play_serves_small_launches_full_waves_and_their_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block alone is simulated once, as it is the same in each launch; several blocks are not."""
    made: list[Trace] = []

    def counted(of: Trace, *given: Any, **also: Any) -> timeline.Played:
        made.append(of)
        return play(of, *given, **also)

    play = timeline.play
    monkeypatch.setattr(loop_profile, "play", counted)
    for blocks, plays in ((1, 3), (2, 5), (8, 5)):
        made.clear()
        of = profile(ffma(64), blocks=blocks)
        spans = [of.span(blocks, H200, together=together) for together in (True, False)]
        assert (spans[0] == spans[1]) or blocks == 8
        assert of.overlap(H200) >= 0
        assert len(made) == plays


def test_resident_blocks_hide_waiting() -> None:
    waiting: list[Line] = [lds(shared(1)), ("FFMA R4, R8, R3, R4", replace(FREE, waits=(0,)), None), *ffma(20)]
    alone = estimate(profile(waiting, warps=4, blocks=1), 132 * 4)
    four = estimate(profile(waiting, warps=4, blocks=4), 132 * 4)
    assert alone.limiter == "latency"
    assert four.limiter in ("issue", "fp32")
    assert four.time_us < 0.7 * alone.time_us


@pytest.mark.parametrize("multiplies", [100, 1500])
def test_blocks_of_later_waves_hide_latency_from_each_other(multiplies: int) -> None:
    """They are at different places of their K tiles; those that start together are in step."""

    def at(tiles: int) -> tuple[int, Trace]:
        lines: list[Line] = []
        for tile in range(tiles):
            fetched = Traffic("global", True, 4, 4, tuple(range(16 * tile, 16 * tile + 16)))
            lines.append(("LDG.E.128 R8, [R2.64]", replace(FREE, sets=0), fetched))
            lines.append(("BAR.SYNC.DEFER_BLOCKING 0x0", replace(FREE, waits=(0,), stall=6), None))
            lines += ffma(multiplies)
        return 8 * tiles, trace(lines, 4, 2)

    of = Profile(lambda: (at(8), at(16)), blocks_per_sm=2, tile_rows=128, tile_cols=128, tile_depth=8)
    near, far = (8 * of.span(2, H200, from_dram=it).per_k for it in (False, True))
    together = 8 * of.span(2, H200, together=True, from_dram=True).per_k
    latency = pipes_of(H200).alone
    both = 2 * multiplies  # clocks of a scheduler for a tile of each block
    assert far == pytest.approx(max(latency + multiplies, both), rel=0.15), "one multiplies while another waits"
    assert both <= near < together, "those of one launch are in step"


SCATTERED = Traffic("global", True, 32, 32, tuple(range(0, 128, 4)))


@pytest.mark.parametrize(
    ("loop", "limiter"),
    [
        (ffma(64), "fp32"),
        ([("LOP3.LUT R4, R2, R3, RZ, 0xfc, !PT", FREE, None)] * 8 + ffma(40), "issue"),
        ([lds(shared(8, 4), None, "LDS.128")] * 8, "shared"),
        ([("LDG.E R8, [R2.64]", FREE, SCATTERED)] * 8, "l1"),
        (ffma(4, stall=12), "latency"),
    ],
)
def test_each_unit_can_be_the_limiter(loop: list[Line], limiter: str) -> None:
    it = estimate(profile(loop), 132 * 4)
    assert it.limiter == limiter or (limiter == "fp32" and it.parts["fp32"] == it.parts["issue"])


def test_memory_can_be_the_limiter() -> None:
    reads: list[Line] = [("LDG.E R8, [R2.64]", FREE, Traffic("global", True, 1, 1, (0, 1, 2, 3))), *ffma(1)]
    square, grid = Shape(4096, 4096, 4096), (32, 32, 1)
    of = profile(reads)
    assert estimate_at(of, square, grid, replace(H200, dram_bytes_per_s=1e9)).limiter == "dram"
    assert estimate_at(of, square, grid, replace(H200, l2_bytes_per_s=1e11)).limiter == "l2"
    assert estimate_at(profile(ffma(1)), Shape(1, 1, 8), (1, 1, 1), H200).limiter == "launch"


def test_dram_reads_once_what_fits_into_l2() -> None:
    of = profile(ffma(1))
    small, large = Shape(1024, 1024, 1024), Shape(16384, 16384, 16384)
    fits = estimate_at(of, small, (8, 8, 1), H200).parts["dram"]
    assert fits == pytest.approx(3 * 4 * 1024**2 / H200.dram_bytes_per_s * 1e6)
    spills = estimate_at(of, large, (128, 128, 1), H200).parts["dram"]
    assert spills > 3 * 4 * 16384**2 / H200.dram_bytes_per_s * 1e6
    roomy = estimate_at(of, large, (128, 128, 1), replace(H200, l2_bytes=1 << 40)).parts["dram"]
    assert roomy == pytest.approx(3 * 4 * 16384**2 / H200.dram_bytes_per_s * 1e6)


def test_every_data_sheet_gives_a_time() -> None:
    of = profile([lds(shared(4), None, "LDS.128"), *ffma(64)])
    times = {name: estimate(of, 4096, gpu=gpu).time_us for name, gpu in GPUS.items()}
    assert times["h200"] < times["v100"] < times["p100"]
    assert all(0 < time < 1e6 for time in times.values())


def test_what_was_played_is_kept_and_read_back(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    key = compile_cache.key_of("a test of the estimate")

    def tracer() -> tuple[tuple[int, Trace], tuple[int, Trace]]:
        traced.append(1)
        return (8, trace(ffma(64) * 8, 8, 2)), (16, trace(ffma(64) * 16, 8, 2))

    traced: list[int] = []
    times = []
    for _ in range(2):
        of = Profile(tracer, blocks_per_sm=2, tile_rows=128, tile_cols=128, key=key)
        times.append(estimate(of, 132 * 4).time_us)
    assert times[0] == times[1]
    assert traced == [1]


def test_the_same_code_in_another_folder_is_traced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lesson = any_course().lesson("naive")
    traced: list[str] = []
    traceable = trace_module.traceable

    def counted(compiled: Compiled, kernel: Kernel) -> Traceable:
        traced.append(compiled.path)
        return traceable(compiled, kernel)

    monkeypatch.setattr(loop_profile, "traceable", counted)
    times = []
    for path in (str(lesson.solution_path), str(tmp_path / "kernel.cu")):
        compiled = must_compile(
            lesson.solution_path.read_text(),
            path=path,
            entry="gemm",
            defines=lesson.tile.defines,
            include_dirs=lesson.include_dirs,
        )
        of = profile_of(subject_of(lesson, compiled), 2)
        times.append(estimate(of, 132 * 4).time_us)
    assert times[0] == times[1]
    assert traced == [str(lesson.solution_path)]


@pytest.mark.parametrize(
    ("name", "blocks", "shape"),
    [("naive", 2, (32, 64, 64)), ("block_tile", 2, (32, 64, 64)), ("double_buffer", 4, (64, 512, 64))],
)
def test_what_is_traced(name: str, blocks: int, shape: tuple[int, int, int]) -> None:
    lesson = any_course().lesson(name)
    subject = Subject(Mock(), lambda shape: lesson.grids(shape)[0], Mock(), tile_sizes(lesson), lesson.shapes)
    assert traced_shape(subject, blocks) == Shape(*shape)
    without = traced_shape(replace(subject, tile=TileSizes()), blocks)
    assert lesson.grids(without)[0].blocks >= blocks
    assert lesson.shapes.refusal(without) is None


@pytest.mark.parametrize(("size", "shape"), [("n", (32, 256, 64)), ("m", (256, 32, 64)), ("k", (32, 32, 64))])
def test_what_is_traced_of_a_grid_that_knows_one_size_of_c(size: str, shape: tuple[int, int, int]) -> None:
    """The grid of a launch that transposes A does not depend on N: a search for eight of its blocks never ended."""
    lesson = any_course().lesson("block_tile")
    subject = Subject(
        Mock(), lambda at: Mock(blocks=at.names[size.upper()] // 32), Mock(), tile_sizes(lesson), lesson.shapes
    )
    assert traced_shape(subject, 8) == Shape(*shape)


def test_a_launch_multiplies_what_others_made_of_the_factors() -> None:
    """Of fp32 in two parts only the launches that split had anything to do, and the table showed 0 TFLOP/s."""
    lesson, shape = any_course().lesson("precision"), Shape(256, 256, 256)
    moved = [movement_of(lesson, launch.parameters) for launch in lesson.launches]
    assert [it.tiled for it in moved] == [False, False, True]
    assert [it.operations(shape) for it in moved] == [0, 0, 2 * 256**3]
    assert [it.read(shape) / 256**2 for it in moved] == [4, 4, 4 + 4], "floats, then two halves of each"
    assert [it.written(shape) / 256**2 for it in moved] == [4, 4, 4]


def test_residues_are_the_factors_of_several_products() -> None:
    """Their scales are no factor: join, which has those of A and of B, was taken for a launch that multiplies."""
    lesson, shape = any_course().lesson("ozaki"), Shape(256, 256, 256)
    moved = [movement_of(lesson, launch.parameters) for launch in lesson.launches]
    assert [it.tiled for it in moved] == [False, False, True, False]
    assert [it.planes for it in moved] == [1, 1, 15, 1]
    assert (moved[2].left, moved[2].right, moved[2].target) == (1, 1, 1)
    scales = 8 * 256
    reads = [8 * 256**2, 8 * 256**2, 30 * 256**2, 15 * 256**2 + 2 * scales]
    assert [it.read(shape) for it in moved] == reads
    writes = [15 * 256**2 + scales, 15 * 256**2 + scales, 15 * 256**2, 8 * 256**2]
    assert [it.written(shape) for it in moved] == writes


def test_l2_holds_the_matrices_of_one_product_at_a_time() -> None:
    square = Shape(4096, 4096, 4096)
    bytes_ = 3 * 4096**2 * 4  # as many as one product of floats moves
    products = replace(PLAIN, planes=8, left=1, right=1, target=1)

    def dram(traffic: Movement, along_z: int) -> float:
        of = Profile(profile(ffma(1)).tracer, blocks_per_sm=2, tile_rows=128, tile_cols=128, traffic=traffic)
        return estimate_at(of, square, (32, 32, along_z), H200).parts["dram"]

    assert dram(products, 8) == pytest.approx(bytes_ / H200.dram_bytes_per_s * 1e6)
    assert dram(PLAIN, 1) > 2 * dram(products, 8), "one product of that size does not fit"


def moving(reads: dict[str, float], writes: dict[str, float], tiled: bool = True) -> Movement:
    """A launch that moves these bytes."""
    return Movement(lambda _: (reads, writes), lambda _: 0, tiled=tiled)


@pytest.mark.parametrize(
    ("size", "between", "found"), [(8e6, 0, 1), (18e6, 0, 1), (8e6, 60e6, 0), (80e6, 0, 0)],
    ids=["small", "medium", "others in between", "too large"],
)  # fmt: skip
def test_a_launch_finds_in_l2_what_the_one_before_left(size: float, between: float, found: float) -> None:
    launches = [moving({"A": size}, {"P": size}), moving({"P": size}, {"C": size})]
    launches[1:1] = [moving({"B": between}, {})] * (between > 0)
    assert left_in_l2(launches, SMALL, H200) == [0, *([0] if between else []), found * size]


def test_what_is_left_in_l2_is_not_read_from_dram() -> None:
    moved = moving({"P": 8e6}, {"C": 8e6}, tiled=False)
    of = Profile(profile(ffma(1)).tracer, blocks_per_sm=2, tile_rows=128, tile_cols=128, traffic=moved, tiled=False)
    alone, after = (estimate_at(of, SMALL, (64, 1, 1), H200, left=left).parts["dram"] for left in (0.0, 8e6))
    assert after == pytest.approx(alone / 2)
    second = Estimator((of, of), lambda _: [Grid((64, 1, 1), (256, 1, 1))] * 2).at(SMALL, H200)
    assert second.parts["dram"] == pytest.approx(alone + after)


@pytest.mark.parametrize(("barrier", "row", "times"), [(True, 512, 2.0), (False, 512, 1.0), (True, 64, 1.0)])
def test_rows_that_l2_cannot_hold_are_read_from_dram_again(barrier: bool, row: int, times: float) -> None:
    """A block that looks for the largest number of its row, and then reads the row again, as ozaki's split does."""
    between: list[Line] = [("BAR.SYNC.DEFER_BLOCKING 0x0", FREE, None)] if barrier else ffma(1)
    blocks = 8192
    moved = moving({"A": 128.0 * row * blocks}, {"C": 1.0}, tiled=False)

    def at(k: int) -> tuple[int, Trace]:
        lines = (tuple(range(4 * i, 4 * i + 4)) for i in range(k))
        reads: list[Line] = [("LDG.E R8, [R2.64]", FREE, Traffic("global", True, 1, 1, it)) for it in lines]
        return k, trace([*reads, *between, *reads], 1, 16)

    of = Profile(lambda: (at(8), at(16)), blocks_per_sm=16, traffic=moved, tiled=False)
    found = estimate_at(of, Shape(1, 1, row), (blocks, 1, 1), H200).parts["dram"]
    once = 128.0 * row * blocks / H200.dram_bytes_per_s * 1e6
    assert found / once == pytest.approx(times, rel=0.05)


def test_a_t4_is_estimated_from_its_own_machine_code() -> None:
    """Turing moves barriers into registers (BMOV), which later code does not."""
    course = any_course()
    lesson = course.lesson("double_buffer")
    compiled = Builder(BuildTarget(buildable(GPUS["t4"].arch))).build(
        lesson, lesson.solution_path, lesson.solution_path.read_text()
    )
    assert not isinstance(compiled, CompileFailed)
    assert any(it.opcode.startswith("BMOV") for it in compiled[0].sass)
    estimator = estimator_of(lesson, compiled, GPUS["t4"])
    assert isinstance(estimator, Estimator)
    assert 3e3 < estimator.at(Shape(4096, 4096, 4096), GPUS["t4"]).gflops < 8.1e3


def test_what_is_traced_where_blocks_share_out_the_k_tiles() -> None:
    """M and N of the timed shape, since its choices belong to them, and little of K."""
    course = any_course()
    assert sharing_of(course.lesson("any_shape"), 0, Shape(128, 128, 8192)) is None, "a block has a tile"
    for shape, sharers, k in ((Shape(128, 128, 8192), 256, 4096), (Shape(3072, 3072, 3072), 396, 64)):
        lesson = course.lesson("split_k").at(shape)
        assert {sharing_of(lesson, number, shape) for number in (0, 1)} == {(shape, sharers)}
        grid = lesson.grids(shape)[0]
        subject = Subject(
            Mock(), Mock(return_value=grid), Mock(), tile_sizes(lesson), lesson.shapes, sharing=(shape, sharers)
        )
        assert traced_shape(subject, 3) == replace(shape, k=k)


@pytest.mark.parametrize(
    ("table", "name", "size", "shared"),
    [
        ("slow_edits_split", "split_k", (128, 128, 8192), True),
        ("slow_edits_split", "split_k few workers", (128, 128, 8192), True),  # a block for 64 K tiles
        ("slow_edits_types", "persistent", (4096, 4096, 4096), False),
        ("slow_edits_types", "persistent 108 blocks", (4096, 4096, 4096), False),  # as many for one tile
    ],
)
def test_blocks_divide_k_tiles_or_stay(table: str, name: str, size: tuple[int, int, int], shared: bool) -> None:
    [kernel] = [it for it in tables()[table].kernels() if it.name == name]
    [lesson] = {it.lesson for it in kernel.chosen([Shape(*size)])}
    found, blocks = subject_of(lesson, Mock(sass=[]), 0, Shape(*size)), lesson.grids(Shape(*size))[0].blocks
    assert (found.sharing, found.staying) == (((Shape(*size), blocks), 0) if shared else (None, blocks))


@pytest.mark.parametrize(
    ("size", "sharers", "short", "k"),
    [(2048, 396, 64, 256), (4096, 396, 64, 128), (512, 256, 256, 512), (8, 3, 8, 16)],
)
def test_short_shares_are_traced_further(size: int, sharers: int, short: int, k: int) -> None:
    """A share begins and ends in the middle of tiles: the line in K wants many of them, but not more than K has."""
    shape = Shape(size, size, size)
    subject = Mock(tile=TileSizes(64, 128, 8), sharing=(shape, sharers))
    assert longer(subject, replace(shape, k=short)) == k
    assert longer(Mock(sharing=None), replace(shape, k=short)) == 2 * short


def test_only_the_first_launch_finds_an_idle_gpu() -> None:
    one = Estimate("", Shape(1, 1, 1), 10.0, 1.0, "issue", {})
    assert in_a_row([one]) is one
    assert in_a_row([one, one]).time_us == 20.0 - LAUNCH_US + NEXT_US
