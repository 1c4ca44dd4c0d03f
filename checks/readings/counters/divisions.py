"""Reads which divisions of float32 take their slow path: ``divisions.json``.

    python -m checks.readings.counters.divisions      on a machine with a GPU and cupy; seconds

One division for each pair of exponents and some fractions, timed by its warp: at most 150 clocks, or at least 250.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np

from checks.usage import help_if_asked

STORED = Path(__file__).with_name("divisions.json")
FRACTIONS = (0, 1, 0x400000, 0x7FFFFF)
SOURCE = """
extern "C" __global__ void k(const unsigned *a, const unsigned *b, unsigned *clocks)
{
    __shared__ volatile float box[2];
    unsigned fewest = ~0u;
    for (int turn = 0; threadIdx.x == 0 && turn < 3; turn++) {
        box[0] = __uint_as_float(a[blockIdx.x]);
        box[1] = __uint_as_float(b[blockIdx.x]);
        float x = box[0], y = box[1], quotient;
        const unsigned before = clock();
        asm volatile("div.rn.f32 %0, %1, %2;" : "=f"(quotient) : "f"(x), "f"(y) : "memory");
        box[0] = quotient;
        x = box[0];
        const unsigned after = clock();
        if (turn && after - before < fewest) // the first turn fetches the code
            fewest = after - before;
    }
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = fewest;
}
"""


def main() -> None:
    """Time all pairs and store, for each exponent of the dividend, the divisors' exponents of fast divisions."""
    import cupy

    kernel = cupy.RawKernel(SOURCE, "k")
    exponents = np.arange(256, dtype=np.uint32) << np.uint32(23)
    found = set()
    for of_a in FRACTIONS:
        for of_b in FRACTIONS:
            a, b = (cupy.asarray(it.ravel()) for it in np.meshgrid(exponents | of_a, exponents | of_b, indexing="ij"))
            clocks = cupy.zeros(a.size, cupy.uint32)
            kernel((a.size,), (32,), (a, b, clocks))
            taken = clocks.get().reshape(256, 256)
            assert ((taken <= 175) | (taken >= 225)).all(), "neither fast nor slow"
            found.add((taken < 200).tobytes())
    (same,) = found  # the fractions don't matter
    fast = [np.flatnonzero(row) for row in np.frombuffer(same, bool).reshape(256, 256)]
    assert all(len(row) == 0 or len(row) == row[-1] - row[0] + 1 for row in fast)
    about = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "fast": [[int(row[0]), int(row[-1])] if len(row) else [] for row in fast],
    }
    STORED.write_text(json.dumps(about) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
