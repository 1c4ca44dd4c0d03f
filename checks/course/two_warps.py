"""Measure variants of lesson two_warps, small sizes too: where ``lessons/measured/h200_two_warps.json`` comes from.

    python -m checks.course.two_warps compile DIR          # here: machine code of every variant
    python -m checks.course.two_warps run DIR FILE         # on a machine with the GPU and cupy

Everything else is as in ``measure``, but for the sizes: where the tiles of the lessons before are too large, too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from checks.course.measure import (
    COLD,
    WARM,
    Bench,
    compile_kernels,
    every_size,
    machine,
    squares,
    write,
)
from checks.course.variants import Variant, tiled
from gemm_lessons.gemm.shapes import Shape

WAIT_CLOCKS = 500_000  # 250 us
ROUNDS = {256: 40, 512: 40, 768: 40, 1024: 20, 1536: 15, 2048: 9, 4096: 7, 8192: 3}


def squares_of(name: str, size: int, **sizes: int) -> Variant:
    """Of one size, whatever the host would choose."""
    return tiled(name, TM=size, BM=8 * size, BN=8 * size, **sizes)


VARIANTS = (
    tiled("two_warps"),
    squares_of("two_warps 8x8", 8),
    squares_of("two_warps 6x6", 6),
    squares_of("two_warps 4x4", 4),
    squares_of("two_warps 5 blocks", 8, BLOCKS_PER_SM=5),
    squares_of("two_warps 8 blocks", 8, BLOCKS_PER_SM=8),
    *(
        Variant(f"two_warps {name.replace('_', ' ')}", {"TM": 8, "BM": 64, "BN": 64}, pitfall=name)
        for name in (
            "one_program", "one_handle", "everybody", "pointers", "no_prefetch", "no_exchange", "rows_of_lanes",
            "fragments_late",
        )
    ),
    tiled("double_buffer"),
    tiled("double_buffer 128x128", BM=128, BLOCKS_PER_SM=2),
    tiled("bank_conflicts"),
    tiled("block_tile"),
)  # fmt: skip


def shapes() -> list[Shape]:
    """All that is measured, and what is verified before."""
    return [*squares(), *(Shape(n, n, n) for n in ROUNDS)]


def rounds(name: str, n: int) -> int:
    """Launches of a variant at n^3: none where its tiles do not fit."""
    if name == "two_warps 6x6" and n % 48:
        return 0
    return 2 if n > 4096 and name == "block_tile" else ROUNDS[n]


class Hidden(Bench):
    """Small sizes take a few microseconds, and cuBLAS's host code far more: a kernel that spins waits for it."""

    spins: ClassVar[Mapping[str, int]] = {WARM: WAIT_CLOCKS, COLD: WAIT_CLOCKS}


def run(folder: Path, target: Path) -> None:
    bench = Hidden(folder)
    rows = every_size(bench, ROUNDS, (WARM, COLD), rounds)
    about = {
        "command": "python -m checks.course.two_warps compile DIR; python -m checks.course.two_warps run DIR FILE",
        **machine(bench),
        "what": "Variants of lesson two_warps, and lessons before it: checks/course/two_warps.py. Problem as in"
        " h200.json.",
        "how": "CUDA events around one launch, hidden behind a kernel that spins, median over the repeats. cold: after"
        " a fill of 128 MiB, so that L2 is cold. percent_of_cublas is against cuBLAS in the same loop, so compare"
        " within this file.",
    }
    write(target, about, rows)


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_kernels(Path(sys.argv[2]), [variant.kernel() for variant in VARIANTS], shapes())
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
