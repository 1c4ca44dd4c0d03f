"""Time launches that are queued after another kernel, so that launching is hidden. Needs CuPy and a GPU."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any


class QueuedLaunches:
    """The kernels of a file. The kernel before each launch takes ``clocks``. Each is launched ``times`` times, of which
    the first ``dropped`` do not count."""

    def __init__(self, source: Path, clocks: int, times: int, dropped: int) -> None:
        import cupy

        self.cupy, self.clocks, self.times, self.dropped = cupy, clocks, times, dropped
        self.module = cupy.RawModule(code=source.read_text(), options=("-std=c++17",))
        self.spin = cupy.RawKernel(
            r'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n); }',
            "spin",
        )

    def us(self, name: str, grid: int, block: int, *args: Any) -> float:
        """Return the median of the microseconds of a kernel."""
        import numpy as np

        function, found = self.module.get_function(name), []
        for _ in range(self.times):
            before, after = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            self.spin((1,), (1,), (np.int64(self.clocks),))
            before.record()
            function((grid,), (block,), args)
            after.record()
            after.synchronize()
            found.append(1e3 * self.cupy.cuda.get_elapsed_time(before, after))
        return round(statistics.median(found[self.dropped :]), 2)

    def print(self, what: str, found: dict[str, float]) -> None:
        """Print microseconds by name as JSON, with the GPU."""
        gpu = self.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        json.dump({"what": what.partition("\n")[0], "gpu": gpu, "us": found}, sys.stdout, indent=1)
