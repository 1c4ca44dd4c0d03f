"""How fast boxes come from L2 to shared memory, by how many are in flight: bytes per clock of a multiprocessor.

    python -m checks.readings.estimate.flights compile DIR             here
    python -m checks.readings.estimate.flights run DIR NAME.json       on a machine with a GPU and CuPy; half a minute

L2 holds what is copied. ``own``: each block copies boxes of its own; ``pairs``: two blocks the same; ``same``: all the
same; ``66 apart``, ``16 apart``, ``8 apart``: blocks so far from each other the same; ``tiles``: boxes of A and B as
the blocks of a product share them, 16 of them a row of A, 8 or 9 a column of B; ``multicast``: as pairs, half of each
box asked for by one block for both. ``products``: while a warpgroup multiplies random numbers, or zeros, which draw
less power, long enough for the chip to choose its clock.

Of each: bytes per clock that a multiprocessor gets, in the median; clocks of a box; the clock in GHz.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.compiling import must_compile
from checks.usage import compile_or_run, help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
FOLDERS = (Path(__file__).parents[3] / "lessons/common", Path(__file__).parents[2] / "estimate/kernels/hopper")
SLOTS, SMS, ROW = 8, 132, 128  # slots of a block in the output; bytes of a box's row
TURNS, LONG, HEATING = 256, 20_000, 0.6  # iterations of a launch; beside products, for so many seconds
SHARED_MOST, PRODUCT_TILES = 227 << 10, 40_960  # bytes of a block; of these, what products read
SHARES = {"own": 1, "pairs": 2, "same": SMS, "tiles": 0, "multicast": 2}  # blocks of the same boxes
APART = {f"{blocks} apart": -blocks for blocks in (66, 16, 8)}
WAYS = SHARES | APART


@dataclass(frozen=True)
class Probe:
    """``slots`` boxes of ``rows`` x 128 bytes in flight in each of ``blocks``."""

    rows: int
    slots: int
    blocks: int = 1
    shared: str = "own"
    products: str = ""

    @property
    def name(self) -> str:
        beside = f", products of {self.products}" if self.products else ""
        return f"{self.slots} x {self.rows * ROW >> 10} KB, {self.blocks} blocks, {self.shared}{beside}"

    @property
    def cubin(self) -> str:
        return f"flights{2 if self.shared == 'multicast' else 1}{int(bool(self.products))}.cubin"

    @property
    def room(self) -> int:
        """Bytes of shared memory."""
        return self.slots * self.rows * ROW + PRODUCT_TILES * bool(self.products)


def probes() -> Iterator[Probe]:
    """Everything that is read."""
    for rows in (64, 128, 256):
        for slots in (1, 2, 3, 4, 6, 8):
            yield Probe(rows, slots)
            yield from (Probe(rows, slots, SMS // 2, shared) for shared in ("own", "tiles"))
            yield from (Probe(rows, slots, SMS, shared) for shared in SHARES)
    yield from (Probe(rows, slots, SMS, apart) for rows, slots in ((128, 4), (64, 8), (256, 3)) for apart in APART)
    for rows, slots in ((64, 8), (128, 4), (128, 8), (256, 4)):
        for shared in ("own", "tiles", "same"):
            yield from (Probe(rows, slots, SMS, shared, of) for of in ("random numbers", "zeros"))


def compile_probes(folder: Path) -> None:
    """A cubin for each way."""
    folder.mkdir(parents=True, exist_ok=True)
    for cluster, products in ((1, 0), (2, 0), (1, 1)):
        defines = {"CLUSTER": cluster, "PRODUCTS": products}
        made = must_compile(
            SOURCE.read_text(), path=SOURCE.name, entry="flights", defines=defines, include_dirs=FOLDERS, arch="sm_90a"
        )
        (folder / f"flights{cluster}{products}.cubin").write_bytes(made.cubin)


def run(folder: Path, target: Path) -> None:
    """On the current GPU."""
    import cupy
    import numpy as np
    import pynvml

    from checks.estimate.ladder import random_bf16
    from gemm_lessons.devices.gpu.functions import tensor_map
    from gemm_lessons.engine.records.launch import TensorMap

    data = {"random numbers": random_bf16((1024, 512)), "zeros": cupy.zeros((1024, 512), cupy.uint16)}
    matrix, sink = random_bf16((1 << 14, 1 << 10)), cupy.zeros(128, cupy.float32)
    out = cupy.zeros((SMS * (SLOTS + 1), 4), cupy.int64)
    found: dict[str, Any] = {}
    for probe in (it for it in probes() if it.room <= SHARED_MOST):
        function = cupy.RawModule(path=str(folder / probe.cubin)).get_function("flights")
        function.max_dynamic_shared_size_bytes = probe.room
        tiles = not WAYS[probe.shared]
        cols = 32 if tiles else 4  # boxes of a row of the matrix: all of it within L2
        size = (matrix.size // (cols * ROW // 2), cols * ROW // 2)
        box = (probe.rows // (2 if probe.shared == "multicast" else 1), ROW // 2)
        about = TensorMap(np.broadcast_to(np.uint16(0), size), box, ROW, "bfloat16")
        map_ = tensor_map(matrix.data.ptr, {**about.described, "sizes": size[::-1], "strides": (cols * ROW,)})
        turns = LONG if probe.products else TURNS
        sizes = [np.int32(it) for it in (probe.slots, probe.rows, turns, WAYS[probe.shared], cols)]
        given = (map_, out, data[probe.products or "zeros"], sink, *sizes)
        start = time.perf_counter()
        taken: list[dict[str, float]] = []
        while len(taken) < 5 or (probe.products and time.perf_counter() - start < HEATING):
            function((probe.blocks,), (384 if probe.products else 256,), given, shared_mem=probe.room)
            all_of = out.get()
            read = all_of[: probe.blocks * SLOTS].reshape(probe.blocks, SLOTS, 4)[:, : probe.slots]
            clocks, ns = read[:, :, 1] - read[:, :, 0], read[:, :, 3] - read[:, :, 2]
            rates = (turns * probe.rows * ROW / clocks).sum(axis=1)
            own = {
                "bytes": float(np.median(rates)), "least": float(rates.min()),
                "clocks": float(np.median(clocks)) / turns, "ghz": float(np.median(clocks / ns)),
            }  # fmt: skip
            if probe.products:
                product = all_of[probe.blocks * SLOTS :][: probe.blocks]
                own["product"] = float(np.median(product[:, 0] / product[:, 1]))
            taken.append(own)
        late = taken[1:] if not probe.products else taken[len(taken) // 2 :]
        found[probe.name] = {key: round(statistics.median(it[key] for it in late), 3) for key in late[0]}
        print(probe.name, found[probe.name], flush=True)
    pynvml.nvmlInit()
    found_by = {
        "what": "python -m checks.readings.estimate.flights: bytes per clock and multiprocessor, see there",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
    }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in found.items())
    target.write_text(f'{json.dumps(found_by, indent=1)[:-2]},\n "read": {{\n{lines}\n }}\n}}\n')


if __name__ == "__main__":
    help_if_asked(__doc__)
    compile_or_run(compile_probes, run)
