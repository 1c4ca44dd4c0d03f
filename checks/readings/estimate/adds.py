"""Which lanes' atomics share a round of L2, and where rounds meet: ``python -m checks.readings.estimate.adds > NAME``.

Needs CuPy and a GPU; some seconds. Microseconds of 16 atomics of 16,384 warps, launched after another kernel.
"""

from __future__ import annotations

from pathlib import Path

from checks.readings.estimate.queued import QueuedLaunches
from checks.usage import help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
LANES = range(32)
PLACES = {  # of a warp's lanes, in words; -1: takes no part
    "one lane": [0] + [-1] * 31,
    "all at one": [0] * 32,
    "fours at one": [lane // 4 for lane in LANES],
    "eights at one": [lane // 8 for lane in LANES],
    "fours at one, by sectors": [lane // 4 * 8 for lane in LANES],
    "a line": [*LANES],
    "a line, sectors in turn": [lane % 4 * 8 + lane // 4 for lane in LANES],
    "8 lanes, a sector": [*range(8)] + [-1] * 24,
    "4 lanes by sectors": [0, 8, 16, 24] + [-1] * 28,
    "32 lanes by sectors": [lane * 8 for lane in LANES],
}
LINES = ((1, 32), (2, 32), (2, 1024), (4, 32), (4, 1024), (16, 32), (16, 1024), (64, 32), (4096, 32))  # and their step


def main() -> None:
    import cupy
    import numpy as np

    kernels = QueuedLaunches(SOURCE, 150_000, 12, 2)
    sums = cupy.zeros(1 << 22, cupy.int32)
    found: dict[str, float] = {}
    for kind in ("integers", "floats"):
        for label, places in PLACES.items():
            lanes = cupy.asarray(np.array(places, np.int32))
            for lines, step in LINES if max(places) < 32 else ((n, max(places) + 8) for n in (1, 2, 4, 16, 64, 4096)):
                took = kernels.us(kind, 1024, 512, np.int32(lines), np.int32(step), lanes, sums)
                found[f"{kind}, {label}, {lines} x {step}"] = took
    kernels.print(__doc__ or "", found)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
