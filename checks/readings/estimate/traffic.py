"""What DRAM, L2, atomics and small blocks take on a whole chip: ``python -m checks.readings.estimate.traffic > NAME``.

Needs CuPy and a GPU; some seconds. Microseconds: the median of launches queued after another kernel, so that launching
is hidden; L2 is as the launch before left it.
"""

from __future__ import annotations

from pathlib import Path

from checks.readings.estimate.queued import QueuedLaunches
from checks.usage import help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
MIB = 1 << 20
SIZES = (4, 8, 16, 24, 32, 40, 48, 64, 96, 128, 256, 512)  # MiB of each array
NEAR = (32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80)  # MiB of all arrays, about what L2 holds
WAYS = {"one place": 0, "consecutive": 1, "random": 2, "a place a block": 3}
ROWS = ((256, 128, 32), (256, 128, 64), (256, 128, 256), (256, 528, 64), (1032, 128, 64), (1032, 528, 256))


def main() -> None:
    import cupy
    import numpy as np

    kernels = QueuedLaunches(SOURCE, 200_000, 21, 3)
    x, y = (cupy.zeros(max(SIZES) * MIB // 4, cupy.float32) for _ in range(2))
    sums = cupy.zeros(4 * MIB, cupy.int32)

    us, found = kernels.us, dict[str, float]()
    for blocks in (1, 132, 1056, 16_384, 131_072, 1_048_576):
        found[f"empty, {blocks} blocks of 128"] = us("empty", blocks, 128, np.int32(0), np.uint32(0), sums)
    for blocks in (16_384, 131_072):
        found[f"empty, {blocks} blocks of 1024"] = us("empty", blocks, 1024, np.int32(0), np.uint32(0), sums)
    for name in ("reads", "writes", "copies"):
        for size in SIZES:
            found[f"{name}, {size} MiB"] = us(name, 264, 1024, np.int64(size * MIB // 16), x, y)
    for name, arrays in (("reads", 1), ("in_place", 1), ("quarters", 4)):
        for size in NEAR:
            found[f"{name}, {size} MiB"] = us(name, 264, 1024, np.int64(size * MIB // 16 // arrays), x, y)
    for size in NEAR:
        found[f"copies, {size / 2:g} MiB"] = us("copies", 264, 1024, np.int64(size * MIB // 32), x, y)
    for size in (1, 16, 32, 64, 256):
        count = size * MIB // 4
        links = cupy.random.permutation(count).astype(cupy.uint32)
        for threads in (32, 128, 512, 1024):
            found[f"chases, {size} MiB, {threads} threads"] = us("chases", 132, threads, np.int64(count), links, sums)
    for name in ("adds", "float_adds"):
        target = sums if name == "adds" else y
        for way, number in WAYS.items():
            for bins in (256, 65_536, MIB) if number in (1, 2) else (0,):
                label = f"{name} 16 x 1M threads, {way}{f' of {bins}' if bins else ''}"
                found[label] = us(name, 4096, 256, np.int32(number), np.uint32(bins), target)
    for bins in (1, 2, 4, 8, 32, 256, 4096):
        for number, places in ((1, "lanes"), (2, "random")):
            label = f"shared_adds 256 x 132 x 1024 threads, {places} of {bins}"
            found[label] = us("shared_adds", 132, 1024, np.int32(number), np.uint32(bins), sums)
    found["shuffles 256 x 132 x 1024 threads"] = us("shuffles", 132, 1024, np.int32(0), np.uint32(0), sums)
    found["exponentials 512 x 132 x 1024 threads"] = us("exponentials", 132, 1024, np.int32(0), np.uint32(0), sums)
    for threads in (64, 128, 256, 512, 1024):
        for size in (4, 8, 32, 128):
            blocks = size * MIB // 4 // threads
            found[f"copy_once, {size} MiB, blocks of {threads}"] = us("copy_once", blocks, threads, x, y)
    for stride in (1, 64, 72):
        for kib in (64, 128, 160, 192, 224, 240, 256, 288):
            sizes = np.int32(64), np.int32(kib * 8), np.int32(stride)
            found[f"lines 64 x {kib} KiB, {stride} apart"] = us("lines", 132, 1024, *sizes, x, y)
    x.fill(0)
    for name in ("row_loads", "row_stores", "row_adds", "row_sums"):
        for floats, blocks, threads in ROWS:
            label = f"{name} of {floats}, {blocks} blocks of {threads}"
            found[label] = us(name, blocks, threads, np.int32(floats), x, y)
    for size in (16, 512):
        for warps in (4, 8, 16, 32, 64):
            grid, block = (264, 16 * warps) if warps > 32 else (132, 32 * warps)
            label = f"dependent_lines 64 of {size} MiB, {warps} warps a multiprocessor"
            found[label] = us("dependent_lines", grid, block, np.uint32(size * MIB // 128 - 1), x, y)
    kernels.print(__doc__ or "", found)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
