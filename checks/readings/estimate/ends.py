"""What a launch costs that computes one tile of C in each block: the launch itself, and the stores of the tile.

    python -m checks.readings.estimate.ends compile DIR             here
    python -m checks.readings.estimate.ends run DIR NAME.json       on a machine with a GPU and CuPy; some seconds

``launches``: microseconds from one empty launch to the next. ``stores``: of tiles of 128 x 256 halves, by the way in
which they are stored (``ends.cu``), until L2 has all of them: nanoseconds of one tile, and of each of 16 in a row; the
slowest warp's, and the clock in GHz.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.compiling import must_compile
from checks.usage import compile_or_run, help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
FOLDERS = (Path(__file__).parents[3] / "lessons/common", Path(__file__).parents[2] / "estimate/kernels/hopper")
WAYS = ("16 bytes of a row", "32 bytes of a row", "whole lines", "boxes")
WAITED, IN_A_ROW, TURNS, MANY = 8_000_000, 200, 7, 16  # clocks; launches; times that each is read; tiles
ROW, SIDE = 128, 2048  # bytes of a box's row; rows of C
SHARED = 200 << 10  # bytes, so that a multiprocessor holds one block


def compile_probes(folder: Path) -> None:
    """A cubin for each way, and one for launches of clusters."""
    folder.mkdir(parents=True, exist_ok=True)
    for way, cluster in (*((way, 1) for way in range(len(WAYS))), (0, 2)):
        defines = {"WAY": way, "CLUSTER": cluster}
        made = must_compile(
            SOURCE.read_text(), path=SOURCE.name, entry="ends", defines=defines, include_dirs=FOLDERS, arch="sm_90a"
        )
        (folder / f"ends{way}{cluster}.cubin").write_bytes(made.cubin)


def run(folder: Path, target: Path) -> None:
    """On the current GPU."""
    import cupy
    import numpy as np
    import pynvml

    from checks.estimate.ladder import SMS, SPIN
    from gemm_lessons.devices.gpu.functions import tensor_map
    from gemm_lessons.engine.records.launch import TensorMap

    spin = cupy.RawKernel(SPIN, "spin")

    def kernel(way: int, cluster: int = 1) -> Any:
        found = cupy.RawModule(path=str(folder / f"ends{way}{cluster}.cubin")).get_function("ends")
        found.max_dynamic_shared_size_bytes = SHARED
        return found

    def in_a_row(launch: Callable[[], None]) -> float:
        times = []
        for _ in range(TURNS):
            events = [cupy.cuda.Event() for _ in range(2)]
            spin((1,), (1,), (np.int64(WAITED),))
            events[0].record()
            for _ in range(IN_A_ROW):
                launch()
            events[1].record()
            events[1].synchronize()
            times.append(cupy.cuda.get_elapsed_time(*events) * 1e3 / IN_A_ROW)
        return statistics.median(times)

    c, out = cupy.zeros((SIDE, 2 * SIDE), cupy.uint16), cupy.zeros((SMS * 8, 2), cupy.int64)
    box = TensorMap(np.zeros(c.shape, np.uint16), (64, 64), ROW, "bfloat16")
    given = (tensor_map(c.data.ptr, box.described), c, out, np.int32(2 * SIDE))
    found: dict[str, dict[str, Any]] = {"launches": {}, "stores": {}}
    for cluster in (1, 2):
        empty = kernel(0, cluster)
        for blocks in (2, 66, 128, SMS, 2 * SMS):

            def launch(empty: Any = empty, blocks: int = blocks) -> None:
                empty((blocks,), (384,), (*given, np.int32(0)), shared_mem=SHARED)

            found["launches"][f"clusters of {cluster}, {blocks} blocks"] = round(in_a_row(launch), 3)
    for way, name in enumerate(WAYS):
        stores = kernel(way)
        for blocks in (1, 66, 128):
            slowest = {}
            for tiles in (1, MANY):
                taken = []
                for _ in range(TURNS):
                    stores((blocks,), (384,), (*given, np.int32(tiles)), shared_mem=SHARED)
                    taken.append(out.get()[: 8 * blocks])
                slowest[tiles] = statistics.median(float(it[:, 1].max()) for it in taken)
            ghz = statistics.median(float(np.median(it[:, 0] / it[:, 1])) for it in taken)
            each = (slowest[MANY] - slowest[1]) / (MANY - 1)
            read = {"one": slowest[1], "each": round(each, 1), "ghz": round(ghz, 3)}
            found["stores"][f"{name}, {blocks} blocks"] = read
    pynvml.nvmlInit()
    about = {
        "what": "python -m checks.readings.estimate.ends: microseconds of launches, nanoseconds of stores",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
    }
    target.write_text(json.dumps(about | found, indent=1) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    compile_or_run(compile_probes, run)
