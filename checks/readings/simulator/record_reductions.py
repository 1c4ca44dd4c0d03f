"""Records a GPU's reductions in global memory by ``cp.reduce.async.bulk``, also of tensor boxes: ``reductions.json``.

    python -m checks.readings.simulator.record_reductions     needs cupy and a GPU of sm_90; seconds
    python -m checks.readings.simulator.record_reductions --compare

A fingerprint of all results for each operation and type, of random bits and of special values.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checks.readings.simulator.record_fragments import fingerprint
from checks.simulator.phase_cases import HEAD, TENSOR
from checks.usage import help_if_asked

KEPT = Path(__file__).with_name("reductions.json")
ROWS, COLS, BOX = 256, 64, 8  # rows of a box
SOURCE = (
    HEAD
    + TENSOR
    + """
extern "C" __global__ void k(const __grid_constant__ Map map, TYPE *y, const TYPE *x)
{
    __shared__ __align__(128) TYPE tile[8 * 64];
    for (int i = threadIdx.x; i < 512; i += 128)
        tile[i] = x[512 * blockIdx.x + i];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        if (BY_BOX)
            asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.OPERATION.tile.bulk_group"
                         " [%0, {%1, %2}], [%3];"
                         :: "l"(&map), "r"(0), "r"(8 * blockIdx.x), "r"(AT(tile)) : "memory");
        else
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.OPERATIONNOFTZ.KIND [%0], [%1], %2;"
                         :: "l"(y + 512 * blockIdx.x), "r"(AT(tile)), "r"((int)sizeof(tile)) : "memory");
        commit();
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""
)
WORDS = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}
ELEMENTS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
BITS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}  # of exponent and fraction
OPERATIONS = [
    *((name, kind) for kind in ("f16", "bf16") for name in ("add", "min", "max")),
    ("add", "f32"),
    ("add", "f64"),
]


def cases() -> Iterator[tuple[str, str, bool]]:
    """Yield operation, type, and whether boxes are reduced."""
    for name, kind in OPERATIONS:
        yield name, kind, False
        yield name, kind, True


def key_of(name: str, kind: str, by_box: bool) -> str:
    """Return the name of a case in ``reductions.json``."""
    return f"{name}.{kind}{' box' * by_box}"


def kernel(name: str, kind: str, by_box: bool) -> str:
    """Return the source of a case."""
    noftz = ".noftz" if name == "add" and kind in ("f16", "bf16") else ""
    word = f"unsigned {'short' if kind in ('f16', 'bf16') else 'int' if kind == 'f32' else 'long long'}"
    text = SOURCE.replace("TYPE", word).replace("OPERATION", name).replace("NOFTZ", noftz).replace("KIND", kind)
    return text.replace("BY_BOX", str(int(by_box)))


def values(kind: str) -> tuple[Any, Any]:
    """Return what is in memory and what is added to it, as bits: half of them random, half pairs of special values."""
    exponent, fraction = BITS[kind]
    inf = (2**exponent - 1) << fraction
    one = (2 ** (exponent - 1) - 1) << fraction
    special = [
        0,
        1,
        2**fraction - 1,
        2**fraction,
        2**fraction + 1,
        one,
        one + 1,
        inf - 1,
        inf,
        inf + 1,
        inf + 2 ** (fraction - 1),
    ]
    special += [one + (fraction + 1 << fraction), one - (fraction + 1 << fraction)]
    special += [it | 1 << exponent + fraction for it in special]
    draw, count = np.random.default_rng(7), ROWS * COLS
    old, given = draw.integers(0, 2 ** (1 + exponent + fraction), (2, count), np.uint64)
    pairs = np.array([(a, b) for a in special for b in special], np.uint64)
    old[1::2], given[1::2] = (np.resize(pairs[:, i], count // 2) for i in range(2))
    near = slice(0, count // 2, 2)  # of nearby exponents, where sums round
    given[near] = (old[near] & np.uint64(inf)) ^ (given[near] & np.uint64(3 << fraction | 2**fraction - 1))
    return old.astype(WORDS[kind]), given.astype(WORDS[kind])


def simulated(name: str, kind: str, by_box: bool) -> Any:
    """Return what the simulator leaves in memory."""
    from gemm_lessons import simulate  # recording needs no simulator
    from gemm_lessons.engine import TensorMap

    y, x = values(kind)
    map_ = TensorMap(y.reshape(ROWS, COLS), (BOX, COLS), element=ELEMENTS[kind])
    launched = simulate(kernel(name, kind, by_box), "k", ROWS // BOX, 128, [map_, y, x], arch="sm_90a")
    assert launched.fault is None, launched.fault
    return y


def main() -> None:
    if "--compare" in sys.argv:
        kept = json.loads(KEPT.read_text())["fingerprints"]
        for name, kind, by_box in cases():
            key = key_of(name, kind, by_box)
            print(key, "equal" if fingerprint(simulated(name, kind, by_box)) == kept[key] else "differs")
        return
    import cupy

    from gemm_lessons.devices.gpu.functions import tensor_map

    found, raw = {}, {}
    for name, kind, by_box in cases():
        function = cupy.RawModule(code=kernel(name, kind, by_box), options=("--gpu-architecture=sm_90a",)).get_function(
            "k"
        )
        y, x = map(cupy.asarray, values(kind))
        size = y.dtype.itemsize
        about = {
            "element": ELEMENTS[kind],
            "sizes": (COLS, ROWS),
            "strides": (COLS * size,),
            "box": (COLS, BOX),
            "swizzle": 0,
        }
        function((ROWS // BOX,), (128,), (tensor_map(y.data.ptr, about), y, x))
        key = key_of(name, kind, by_box)
        raw[key] = y.get()
        found[key] = fingerprint(raw[key])
    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    KEPT.write_text(json.dumps({"gpu": gpu, "fingerprints": found}, indent=1) + "\n")
    if len(sys.argv) > 1:
        np.savez_compressed(sys.argv[1], **raw)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
