"""The estimate: its arithmetic by hand, its trends, and the order of the lessons."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from gemm_lessons.course import any_course
from gemm_lessons.device import METRICS, Counters, LineCount
from gemm_lessons.estimate import BARRIER_CLOCKS, L2_LATENCY, LAUNCH_US, Profile, Work, estimate_at
from gemm_lessons.gpus import GPUS
from gemm_lessons.lesson import Shape
from gemm_lessons.pipeline import Request, run_lesson
from gemm_lessons.simulator import Simulator

H200 = GPUS["h200"]
NOTHING = Work(0, 0, 0, 0, 0, 0, 0, 0)
SQUARE = Shape(4096, 4096, 4096)


def profile(work: Work, **changes: object) -> Profile:
    return replace(Profile([(64, work)], threads=256, blocks_per_sm=2, tile_rows=128, tile_cols=128), **changes)


def counters(lines: tuple[LineCount, ...] = (), opcodes: dict[str, int] | None = None, **short: int) -> Counters:
    return Counters({METRICS[name]: value for name, value in short.items()}, lines, (), opcodes or {})


def test_work_is_one_blocks_share() -> None:
    it = Work.of(
        counters(
            instructions=1000,
            opcodes={"fma.rn.f32": 320, "mov.u32": 100, "ld.param.u64": 60, "bra": 40},
            ffma=32 * 320,
            shared_load_instructions=80,
            shared_store_instructions=8,
            global_load_instructions=12,
            global_store_instructions=4,
            global_load_sectors=48,
            global_store_sectors=16,
            shared_wavefronts=96,
            barriers=6,
        ),
        blocks=4,
    )
    assert it == Work(
        instructions=200, ffma=80, memory=26, shared_wavefronts=24, global_lines=4, global_bytes=512, global_loads=3,
        barriers=6,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sectors", "ideal", "lines"),
    [
        (4, 4, 1),  # 32 floats side by side
        (16, 16, 4),  # 32 float4 side by side
        (32, 4, 29),  # 32 floats in 32 rows
    ],
)
def test_lines_of_a_request(sectors: int, ideal: int, lines: float) -> None:
    line = LineCount(1, METRICS["global_load_sectors"], sectors, ideal)
    assert Work.of(counters((line,), global_load_sectors=sectors), 1).global_lines == lines


def test_two_samples_make_a_line_in_k() -> None:
    short, long = replace(NOTHING, ffma=100.0, barriers=18.0), replace(NOTHING, ffma=180.0, barriers=34.0)
    it = profile(short, samples=[(64, short), (128, long)])
    assert it.work(64) == short
    assert it.work(128) == long
    assert it.work(256) == replace(NOTHING, ffma=340.0, barriers=66.0)
    assert profile(short).work(640).ffma == 1000


def test_a_single_unit_by_hand() -> None:
    """A block of only FFMAs: 1056 blocks on 132 SMs, 8 rounds of 100,000 FFMA warps at 4 a clock."""
    work = replace(NOTHING, ffma=1e5)
    it = estimate_at(profile(work), Shape(1, 1, 64), (1056, 1), H200)
    assert it.time_us == pytest.approx(LAUNCH_US + 8 * 25_000 / 1980)
    assert it.limiter == "fp32"
    assert it.parts["fp32"] == pytest.approx(8 * 25_000 / 1980)
    assert it.gflops == pytest.approx(2 * 64 / it.time_us / 1e3)


def test_waiting_by_hand() -> None:
    """One block: 10 tiles, each a round trip and two barriers, and nothing to overlap them with."""
    it = estimate_at(profile(replace(NOTHING, barriers=20.0)), Shape(1, 1, 64), (1, 1), H200)
    clocks = 10 * dict(L2_LATENCY)[90] + 20 * BARRIER_CLOCKS
    assert it.time_us == pytest.approx(LAUNCH_US + clocks / 1980)
    more = estimate_at(profile(replace(NOTHING, barriers=2000.0)), Shape(1, 1, 64), (1, 1), H200)
    assert more.limiter == "latency"


UNITS = {
    "issue": replace(NOTHING, instructions=40_000.0),
    "fp32": replace(NOTHING, ffma=40_000.0),
    "lsu": replace(NOTHING, memory=10_000.0),
    "shared": replace(NOTHING, shared_wavefronts=10_000.0),
    "l1": replace(NOTHING, global_lines=10_000.0),
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("gpu", ["p100", "h200"])
def test_each_unit_can_be_the_limiter(name: str, gpu: str) -> None:
    it = estimate_at(profile(UNITS[name]), Shape(1, 1, 64), (132, 1), GPUS[gpu])
    assert it.limiter == name


def test_memory_can_be_the_limiter() -> None:
    reads_much = replace(NOTHING, global_bytes=1e9)
    assert estimate_at(profile(reads_much), SQUARE, (32, 32), replace(H200, l2_bytes_per_s=1e11)).limiter == "l2"
    assert estimate_at(profile(reads_much), SQUARE, (32, 32), replace(H200, dram_bytes_per_s=1e9)).limiter == "dram"
    assert estimate_at(profile(NOTHING), Shape(1, 1, 64), (1, 1), H200).limiter == "launch"


def test_two_equal_units_cost_more_than_one() -> None:
    one = estimate_at(profile(UNITS["lsu"]), Shape(1, 1, 64), (132, 1), H200).time_us - LAUNCH_US
    both = replace(UNITS["lsu"], shared_wavefronts=10_000.0)
    two = estimate_at(profile(both), Shape(1, 1, 64), (132, 1), H200).time_us - LAUNCH_US
    assert two / one == pytest.approx(2**0.25)


def test_blocks_come_in_whole_waves() -> None:
    def time(blocks: int) -> float:
        return estimate_at(profile(UNITS["fp32"]), Shape(1, 1, 64), (blocks, 1), H200).time_us - LAUNCH_US

    assert time(1) == time(132)
    assert time(133) == pytest.approx(2 * time(132))


def test_resident_blocks_hide_waiting() -> None:
    work = replace(UNITS["fp32"], barriers=100.0)
    alone, shared = (
        estimate_at(profile(work, blocks_per_sm=blocks), Shape(1, 1, 64), (132 * 8, 1), H200) for blocks in (1, 4)
    )
    assert alone.limiter == "latency"
    assert shared.limiter == "fp32"
    assert shared.time_us < 0.8 * alone.time_us


def test_dram_reads_once_what_fits_into_l2() -> None:
    small, large = Shape(1024, 1024, 1024), Shape(16384, 16384, 16384)
    fits = estimate_at(profile(NOTHING), small, (8, 8), H200).parts["dram"]
    assert fits == pytest.approx(3 * 4 * 1024**2 / H200.dram_bytes_per_s * 1e6)
    spills = estimate_at(profile(NOTHING), large, (128, 128), H200).parts["dram"]
    assert spills > 3 * 4 * 16384**2 / H200.dram_bytes_per_s * 1e6
    more_l2 = estimate_at(profile(NOTHING), large, (128, 128), replace(H200, l2_bytes=1 << 40)).parts["dram"]
    assert more_l2 == pytest.approx(3 * 4 * 16384**2 / H200.dram_bytes_per_s * 1e6)


def test_every_data_sheet_gives_a_finite_time() -> None:
    work = Work(4e4, 3e4, 5e3, 6e3, 1e3, 1e5, 500, 16)
    times = {name: estimate_at(profile(work), SQUARE, (32, 32), gpu).time_us for name, gpu in GPUS.items()}
    assert all(math.isfinite(time) and time > 0 for time in times.values())
    assert times["h200"] < times["v100"] < times["p100"]


def test_each_lesson_is_estimated_faster_than_the_one_before() -> None:
    course, speeds = any_course(), []
    shapes = [Shape(size, size, size) for size in (1024, 2048, 4096)]
    for number in ("01", "02", "03", "04"):
        lesson = course.lesson(number)
        request = Request(course, lesson, lesson.solution_path, Simulator(), H200, beside=False)
        profile = run_lesson(request).kernel.profile
        assert profile is not None
        speeds.append([estimate_at(profile, shape, lesson.grid(shape).grid[:2], H200).gflops for shape in shapes])
    for slower, faster in itertools.pairwise(speeds):
        assert all(b > a for a, b in zip(slower, faster, strict=True))
