"""Which lanes' atomics share a round of L2, and where rounds meet: ``python -m checks.readings.estimate.adds > NAME``.

Needs CuPy and a GPU; some seconds. Microseconds of 16 atomics of 16,384 warps, launched after another kernel.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

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

    module = cupy.RawModule(code=SOURCE.read_text(), options=("-std=c++17",))
    spin = cupy.RawKernel(
        r'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n); }', "spin"
    )
    sums = cupy.zeros(1 << 22, cupy.int32)
    found: dict[str, float] = {}
    for kind in ("integers", "floats"):
        function = module.get_function(kind)
        for label, places in PLACES.items():
            lanes = cupy.asarray(np.array(places, np.int32))
            for lines, step in LINES if max(places) < 32 else ((n, max(places) + 8) for n in (1, 2, 4, 16, 64, 4096)):
                times = []
                for _ in range(12):
                    before, after = cupy.cuda.Event(), cupy.cuda.Event()
                    spin((1,), (1,), (np.int64(150_000),))
                    before.record()
                    function((1024,), (512,), (np.int32(lines), np.int32(step), lanes, sums))
                    after.record()
                    after.synchronize()
                    times.append(1e3 * cupy.cuda.get_elapsed_time(before, after))
                found[f"{kind}, {label}, {lines} x {step}"] = round(statistics.median(times[2:]), 2)
    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    json.dump({"what": (__doc__ or "").partition("\n")[0], "gpu": gpu, "us": found}, sys.stdout, indent=1)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
