"""Loads of a stream from DRAM, one in flight a thread, and bursts of stores that L1 combines.

    python -m checks.readings.estimate.streams > streams_h200.json
    ncu --profile-from-start off --csv --page raw --metrics lts__t_sectors_op_write.sum \\
        python -m checks.readings.estimate.streams bursts    sectors of each launch of BURSTS, for bursts_h200.json

Needs CuPy and a GPU; some seconds. Microseconds: the median of launches queued after another kernel.
"""

from __future__ import annotations

import sys
from pathlib import Path

from checks.readings.estimate.queued import QueuedLaunches
from checks.usage import help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
SIZE = 500 << 20  # bytes of an array
STREAMS = [
    (name, warps, turns)
    for name in ("read1", "read2", "copy1", "copy2")
    for warps in (16, 32, 48, 64)
    for turns in (128, 256)
    if 132 * 32 * warps * turns * int(name[-1]) * 4 <= SIZE
]  # of a multiprocessor
BURSTS = [
    (pitch, count, warps, gap)
    for pitch, count in ((32, 8), (32, 4), (32, 2), (16, 4), (16, 2), (64, 8), (128, 8), (512, 8))
    for warps in (1, 4, 16, 64)
    for gap in (0, 300, 3000)
]


def turns_of(pitch: int, warps: int) -> int:
    """Return how many bursts each warp stores."""
    return min(64, (1 << 30) // (132 * warps * 32 * pitch))


def main() -> None:
    import cupy
    import numpy as np

    kernels = QueuedLaunches(SOURCE, 150_000, 10, 2)
    x, y = (cupy.zeros(1 << 28, cupy.float32) for _ in range(2))
    if sys.argv[1:] == ["bursts"]:
        for pitch, count, warps, gap in BURSTS:
            sizes = np.int32(pitch), np.int32(turns_of(pitch, warps)), np.int32(gap)
            block, blocks = (32 * warps, 132) if warps <= 32 else (1024, 132 * warps // 32)
            for profiled in (False, True):
                if profiled:
                    cupy.cuda.profiler.start()
                kernels.module.get_function(f"burst{count}")((blocks,), (block,), (*sizes, y))
                cupy.cuda.Device().synchronize()
            cupy.cuda.profiler.stop()
        return
    found = {}
    for name, warps, turns in STREAMS:
        block, blocks = (32 * warps, 132) if warps <= 16 else (256, 132 * warps // 8)
        found[f"{name}, {warps} warps, {turns} turns"] = kernels.us(name, blocks, block, np.int32(turns), x, y)
    kernels.print(__doc__ or "", found)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
