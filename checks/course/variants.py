"""Measure variants of the solutions, one change each: where ``lessons/measured/h200_variants.json`` comes from.

    python -m checks.course.variants compile DIR               # here: machine code of every variant
    python -m checks.course.variants run DIR lessons/measured/h200_variants.json    # on a machine with the GPU and cupy

Everything else is as in ``measure``. A variant's name starts with its lesson and says what was changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checks.course.kernel import Kernel
from checks.course.measure import COLD, ROOT, WARM, Bench, every_size, machine, main, write
from gemm_lessons.course.folder import Course
from gemm_lessons.course.pitfalls import load_pitfalls, resized, with_edits
from gemm_lessons.course.tiles import typed

ROUNDS = {1024: 20, 2048: 9, 4096: 7, 8192: 5}
SLOW_ROUNDS = 2  # of the first lesson from 4096 on
LARGEST_SLOW = 4096  # the first two lessons are not timed above


@dataclass(frozen=True)
class Variant:
    """Tile sizes that replace those of lesson.toml, and edits of solution.cu: pairs (find, replace) or a pitfall's."""

    name: str
    tile: dict[str, int]
    edits: tuple[tuple[str, str], ...] = ()
    pitfall: str = ""
    type: str = ""
    entry: str = ""  # of the launch that multiplies, where that is not the first

    @property
    def lesson(self) -> str:
        """The first word of the name."""
        return self.name.split()[0]

    def kernel(self) -> Kernel:
        """Raises ``LessonError`` where an edit does not match the solution."""
        lesson = Course(ROOT).lesson(self.lesson)
        source = lesson.solution_path.read_text()
        if self.pitfall:
            source = load_pitfalls(lesson.directory / "pitfalls.toml")[self.pitfall].source(source)
        source = with_edits(source, self.edits, self.name)
        lesson = typed(lesson, self.type) if self.type else lesson
        return Kernel(self.name, resized(lesson, self.tile), source, self.entry)


def tiled(name: str, **sizes: int) -> Variant:
    return Variant(name, sizes)


def edited(name: str, find: str, instead: str) -> Variant:
    return Variant(name, {}, ((find, instead),))


TWO_TURNS = """\
    for (; k0 + BK < K; k0 += 2 * BK) {
        turn(0, k0);
        turn(1, k0 + BK);
    }
    if (k0 < K) {
        turn(0, k0);
        multiply(1);
    } else {
        multiply(0);
    }
"""
ONE_TURN = """\
    int now = 0;
    for (; k0 < K; k0 += BK) {
        turn(now, k0);
        now = 1 - now;
    }
    multiply(now);
"""
EACH_TURN = """\
        if (k0 + 4 * BK < K) {
            for (int r = 0; r < BM; r += A_ROWS)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(&a_mine(r, k0 + 4 * BK))));
            for (int r = 0; r < BK; r += B_ROWS)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(&b_mine(k0 + 4 * BK + r, 0))));
        }
        if (false && """
AHEAD = "        if (k0 % AHEAD == 0 && "
UNROLL = "#pragma unroll 2\n"

VARIANTS = (
    tiled("naive 8x128", BM=8, BN=128),
    tiled("naive 16x64", BM=16, BN=64),
    tiled("coalesced 16x16", BM=16, BN=16),
    tiled("coalesced 8x32", BM=8, BN=32),
    tiled("coalesced 4x256", BM=4, BN=256),
    tiled("block_tile BK32", BK=32),
    tiled("block_tile BK128", BK=128),
    tiled("block_tile 16x16x16", BM=16, BN=16, BK=16),
    tiled("thread_column"),
    tiled("thread_column TM8", TM=8),
    tiled("thread_column TM16", TM=16),
    tiled("thread_column 32x32x32", BM=32, BN=32, BK=32),
    Variant("thread_column unroll 1", {}, pitfall="unroll_1"),
    tiled("thread_tile"),
    edited("thread_tile unroll 1", UNROLL, "#pragma unroll 1\n"),
    edited("thread_tile unroll 4", UNROLL, "#pragma unroll 4\n"),
    edited("thread_tile unroll all", UNROLL, "#pragma unroll\n"),
    tiled("thread_tile 4x4 64x64x16", BM=64, BN=64, BK=16, TM=4, TN=4),
    tiled("thread_tile BK16", BK=16),
    Variant("thread_tile own step", {}, pitfall="own_step"),
    tiled("vector_loads"),
    tiled("vector_loads BK16", BK=16),
    tiled("bank_conflicts"),
    tiled("bank_conflicts BK16", BK=16),
    tiled("bank_conflicts 64x128", BM=64),
    Variant("bank_conflicts no padding", {}, pitfall="no_padding"),
    edited("bank_conflicts pad8", "As[BK][BM + 4];", "As[BK][BM + 8];"),
    tiled("warp_tile"),
    tiled("warp_tile 128x128", BM=128),
    tiled("warp_tile w64x32", WM=64, WN=32),
    tiled("warp_tile 16x8 thread w64x64", BM=128, WM=64, WN=64, TM=16),
    Variant("warp_tile rows of lanes", {}, pitfall="rows_of_lanes"),
    Variant("warp_tile rows of lanes 128x128", {"BM": 128}, pitfall="rows_of_lanes"),
    tiled("double_buffer"),
    edited("double_buffer no prefetch", AHEAD, "        if (false && "),
    edited("double_buffer prefetch each turn", AHEAD, EACH_TURN),
    tiled("double_buffer AHEAD64", AHEAD=64),
    tiled("double_buffer AHEAD128", AHEAD=128),
    Variant("double_buffer fetch after multiply", {}, pitfall="fetch_after_multiply"),
    edited("double_buffer one turn per loop", TWO_TURNS, ONE_TURN),
    tiled("double_buffer 3 blocks", BLOCKS_PER_SM=3),
    tiled("double_buffer 5 blocks", BLOCKS_PER_SM=5),
    tiled("double_buffer 16x8 thread w64x64", BM=128, WM=64, WN=64, TM=16, BLOCKS_PER_SM=2),
    tiled("double_buffer BK16", BK=16),
    tiled("double_buffer 128x128", BM=128, BLOCKS_PER_SM=2),
    tiled("any_shape"),
    tiled("any_shape never prefetch", PREFETCH=0),
    tiled("any_shape always prefetch", PREFETCH=1),
    tiled("any_shape 4 bytes", WIDTH_A=1, WIDTH_B=1, WIDTH_C=1),
    tiled("any_shape 4 bytes through registers", WIDTH_A=1, WIDTH_B=1, WIDTH_C=1, DIRECT_A=0, DIRECT_B=0),
    Variant("any_shape guard every turn", {}, pitfall="guard_every_turn"),
)


def kernels() -> list[Kernel]:
    return [variant.kernel() for variant in VARIANTS]


def rounds(name: str, n: int) -> int:
    """Launches of a variant at n^3."""
    lesson = name.split()[0]
    if n > LARGEST_SLOW and lesson in ("naive", "coalesced"):
        return 0
    return min(ROUNDS[n], SLOW_ROUNDS) if n >= 4096 and lesson == "naive" else ROUNDS[n]


def run(folder: Path, target: Path) -> None:
    bench = Bench(folder)
    rows = every_size(bench, ROUNDS, (WARM, COLD), rounds)
    about = {
        "command": "python -m checks.course.variants compile DIR; python -m checks.course.variants run DIR FILE",
        **machine(bench),
        "what": "Variants of the solutions, one change each: checks/course/variants.py. Same problem as h200.json.",
        "how": "CUDA events around one launch, median over the repeats. warm: the launch hidden behind another kernel."
        " cold: hidden behind a fill of 128 MiB, so that L2 is cold. percent_of_cublas is against cuBLAS in the same"
        " loop, so compare within this file.",
    }
    write(target, about, rows)


if __name__ == "__main__":
    main(kernels, run)
