"""Measures how long blocks of a cluster wait for each other: clocks per iteration of ``clusters.cu``.

    python -m checks.readings.estimate.clusters compile DIR             here
    python -m checks.readings.estimate.clusters run DIR NAME.json       on a machine with a GPU and CuPy; some seconds

A stage is ``rows`` x 128 bytes in each block of a cluster, of which each block copies its share for all (multicast);
``stages`` are in flight at once. ``apart``: rows from one cluster's boxes to the next one's; 0: all the same.
``resident``: blocks of a cluster -> clusters that the GPU holds at once, with one block per multiprocessor.
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
HOPPER = Path(__file__).parents[2] / "estimate/kernels/hopper"
SIDE, TURNS, COLS = 2048, 64, 32  # of the matrix, floats; iterations of a launch; floats of a box's row
COPIES, ARRIVAL, BARRIER, LOAD, STORE, REDUCTION, STORES, REDUCTIONS, PLAIN = range(9)
WHOLE = 200 << 10  # dynamic bytes of shared memory, so that a multiprocessor holds one block


@dataclass(frozen=True)
class Probe:
    """One launch; ``way`` is one of the constants above."""

    way: int
    cluster: int = 2
    threads: int = 64
    rows: int = 64
    stages: int = 1
    blocks: int = 0  # 0: one cluster
    apart: int = 0
    width: int = 4  # bytes of a lane
    lanes: int = 32  # of each warp that send

    @property
    def name(self) -> str:
        if self.way >= STORES:
            what = {STORES: "st.async", REDUCTIONS: "red.async", PLAIN: "stores"}[self.way]
            return f"{what}, {self.threads // 32} warps, {self.lanes} lanes of {self.width} bytes"
        if self.way:
            what = ("", "arrival", "barrier", "load", "store", "reduction")[self.way]
            what += " and answer" * (self.way in (ARRIVAL, STORE, REDUCTION))
            return f"{what}, cluster of {self.cluster}, {self.threads} threads"
        blocks = self.blocks or self.cluster
        staged = f"cluster of {self.cluster}, {self.rows} rows, {self.stages} stages"
        return f"{staged}, {blocks} blocks, {self.apart} apart"

    @property
    def defines(self) -> dict[str, int | str]:
        found: dict[str, int | str] = {"ROWS": self.rows, "STAGES": self.stages, "WAY": self.way}
        found |= {"CLUSTER": self.cluster}
        if self.way >= STORE:
            wide = self.width == 16
            found |= {"FORM": '"v4.b32"' if wide else '"u32"', "VALUES": '"{%1, %1, %1, %1}"' if wide else '"%1"'}
            found |= {"BYTES": self.width, "LANES": self.lanes}
        return found


def probes() -> Iterator[Probe]:
    """Everything that is read."""
    yield from (Probe(ARRIVAL), Probe(LOAD), Probe(STORE), Probe(REDUCTION))
    for threads in (32, 128, 384):
        for lanes in (1, 32):
            for way, width in ((STORES, 4), (STORES, 16), (REDUCTIONS, 4), (PLAIN, 4), (PLAIN, 16)):
                yield Probe(way, threads=threads, lanes=lanes, width=width)
    for cluster in (2, 4, 8):
        for threads in (64, 384):
            yield Probe(BARRIER, cluster, threads)
    for cluster, blocks in ((1, 132), (2, 132), (4, 120)):
        for rows, stages in ((64, 1), (256, 1), (128, 4), (256, 4)):
            yield Probe(COPIES, cluster, rows=rows, stages=stages)
            if stages > 1:
                for apart in (0, 16, rows):
                    yield Probe(COPIES, cluster, rows=rows, stages=stages, blocks=blocks, apart=apart)


def compile_probes(folder: Path) -> None:
    """A cubin for each."""
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, bytes] = {}
    for number, probe in enumerate(probes()):
        key = repr(probe.defines)
        if key not in made:
            found = compile_source(
                SOURCE.read_text(),
                path="clusters.cu",
                entry="k",
                defines=probe.defines,
                include_dirs=(HOPPER, COMMON),
                arch="sm_90a",
            )
            assert isinstance(found, Compiled), found.log
            made[key] = found.cubin
        (folder / f"{number}.cubin").write_bytes(made[key])


def resident(function: object, cluster: int) -> int:
    """Return how many clusters the GPU holds at once."""
    from cuda.bindings import driver

    config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    size = attribute.value.clusterDim
    size.x, size.y, size.z = cluster, 1, 1
    config.gridDimX, config.gridDimY, config.gridDimZ = 16 * cluster, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 64, 1, 1
    config.sharedMemBytes = WHOLE
    config.attrs, config.numAttrs = [attribute], 1
    error, found = driver.cuOccupancyMaxActiveClusters(driver.CUfunction(function.kernel.ptr), config)  # type: ignore[attr-defined]
    assert not int(error), error
    return int(found)


def run(folder: Path, target: Path) -> None:
    """On the current GPU."""
    import cupy
    import numpy as np

    from gemm_lessons.devices.gpu.functions import tensor_map
    from gemm_lessons.engine.records.launch import TensorMap

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    matrix = cupy.zeros((SIDE, SIDE), cupy.float32)
    places, sink = cupy.zeros(4096, cupy.int64), cupy.zeros(384, cupy.uint32)
    alike, clocks, held = np.zeros((SIDE, SIDE), np.float32), {}, {}
    for number, probe in enumerate(probes()):
        function = cupy.RawModule(path=str(folder / f"{number}.cubin")).get_function("k")
        shared = probe.stages * probe.rows * 128
        function.max_dynamic_shared_size_bytes = WHOLE
        if probe.way == BARRIER:
            held[probe.cluster] = resident(function, probe.cluster)
        map_ = tensor_map(matrix.data.ptr, TensorMap(alike, (probe.rows // probe.cluster, COLS), 128).described)
        taken = []
        blocks = probe.blocks or probe.cluster
        for _ in range(5):
            sizes = (np.int32(probe.apart), np.int32(SIDE), np.int32(SIDE))
            function((blocks,), (probe.threads,), (map_, places, sink, *sizes), shared_mem=shared)
            taken.append(float(cupy.median(places[:blocks])))
        clocks[probe.name] = round(statistics.median(taken[1:]) / TURNS, 2)
        print(probe.name, clocks[probe.name], flush=True)
    found = {
        "what": "python -m checks.readings.estimate.clusters: clocks of a turn, see there",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": properties["name"].decode(),
        "resident": held,
        "clocks": clocks,
    }
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    compile_or_run(compile_probes, run)
