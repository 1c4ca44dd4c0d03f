"""Measures what copies by TMA and waits on mbarriers cost one multiprocessor: clocks per iteration of ``boxes.cu``.

    python -m checks.readings.estimate.boxes compile DIR             here
    python -m checks.readings.estimate.boxes run DIR NAME.json       on a machine with a GPU and CuPy; some seconds

A stage is ``copies`` boxes of ``rows`` x 128 bytes; ``stages`` are in flight at once. One stage of one block gives the
latency, several of all blocks the rate. ``apart``: rows from one block's boxes to the next one's; 0: all the same.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.usage import compile_or_run, help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
COMMON = Path(__file__).parents[3] / "lessons/common"
SIDE, TURNS, COLS = 2048, 64, 32  # of the matrix, floats; iterations of a launch; floats of a box's row


@dataclass(frozen=True)
class Probe:
    """One launch. ``way`` 0: copies; 1: an arrival and the wait for it; 2: a test of a phase that is complete."""

    rows: int = 8
    stages: int = 1
    copies: int = 1
    blocks: int = 1
    apart: int = 0
    way: int = 0

    @property
    def name(self) -> str:
        if self.way:
            return ("", "arrive and wait", "look")[self.way]
        return f"{self.copies} x {self.rows} rows, {self.stages} stages, {self.blocks} blocks, {self.apart} apart"

    @property
    def defines(self) -> dict[str, int]:
        return {"ROWS": self.rows, "STAGES": self.stages, "COPIES": self.copies, "WAY": self.way}


def probes() -> Iterator[Probe]:
    """Everything that is read."""
    yield from (Probe(way=1), Probe(way=2))
    for rows in (8, 32, 64, 128, 256):
        yield Probe(rows)
    for copies in (2, 4):
        yield Probe(64, 1, copies)
    for rows, stages, copies in ((64, 4, 1), (64, 8, 1), (128, 4, 1), (256, 4, 1), (128, 4, 3), (64, 4, 6)):
        for blocks, apart in ((1, 0), (132, 0), (132, 128), (132, 16)):
            yield Probe(rows, stages, copies, blocks, apart)


def compile_probes(folder: Path) -> None:
    """A cubin for each."""
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    folder.mkdir(parents=True, exist_ok=True)
    for number, probe in enumerate(probes()):
        made = compile_source(
            SOURCE.read_text(), path="boxes.cu", entry="k", defines=probe.defines, include_dirs=(COMMON,), arch="sm_90"
        )
        assert isinstance(made, Compiled), made.log
        (folder / f"{number}.cubin").write_bytes(made.cubin)


def run(folder: Path, target: Path) -> None:
    """On the current GPU."""
    import cupy
    import numpy as np

    from gemm_lessons.devices.gpu.functions import tensor_map
    from gemm_lessons.engine.records.launch import TensorMap

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    matrix = cupy.zeros((SIDE, SIDE), cupy.float32)
    places, sink = cupy.zeros(4096, cupy.int64), cupy.zeros(128, cupy.uint32)
    alike, clocks = np.zeros((SIDE, SIDE), np.float32), {}
    for number, probe in enumerate(probes()):
        function = cupy.RawModule(path=str(folder / f"{number}.cubin")).get_function("k")
        shared = probe.stages * probe.copies * probe.rows * 128
        function.max_dynamic_shared_size_bytes = max(shared, 1 << 16)
        map_ = tensor_map(matrix.data.ptr, TensorMap(alike, (probe.rows, COLS), 128).described)
        taken = []
        for _ in range(5):
            sizes = (np.int32(probe.apart), np.int32(SIDE), np.int32(SIDE))
            function((probe.blocks,), (128,), (map_, places, sink, *sizes), shared_mem=shared)
            taken.append(float(cupy.median(places[: probe.blocks])))
        clocks[probe.name] = round(statistics.median(taken[1:]) / TURNS, 2)
    found = {
        "what": "python -m checks.readings.estimate.boxes: clocks of a turn, see there",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": properties["name"].decode(),
        "clocks": clocks,
    }
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    compile_or_run(compile_probes, run)
