"""Floats of 4 and 6 bits: the instructions of sm_100a beside the software of CUDA's headers, which sm_90 runs, and
beside the nearest number. No GPU has confirmed the instructions; the headers are NVIDIA's own account of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.readings.simulator.record_semantics import recordable
from gemm_lessons import engine
from gemm_lessons.engine.semantics import table as semantics

Array = np.ndarray[Any, Any]
# format -> header, its name there, numbers that are not negative
FORMATS: dict[str, tuple[str, str, Any]] = {
    "e2m1": ("fp4", "__NV_E2M1", [0, 0.5, 1, 1.5, 2, 3, 4, 6]),
    "e2m3": ("fp6", "__NV_E2M3", [*np.arange(16) / 8, *np.arange(16, 32, 2) / 8, *np.arange(32, 64, 4) / 8]),
    "e3m2": ("fp6", "__NV_E3M2", [0, *np.ldexp(1.0, -4) * np.arange(1, 4),
                                  *(np.ldexp(4.0 + f, e - 5) for e in range(1, 8) for f in range(4))]),
}  # fmt: skip
SOURCE = """
#include <cuda_fp4.h>
#include <cuda_fp6.h>
extern "C" __global__ void from_floats(const float2 *x, unsigned short *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __nv_cvt_float2_to_FP(x[i], KIND, cudaRoundNearest);
}
extern "C" __global__ void from_halves(const unsigned *x, unsigned short *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2_raw h; h.x = x[i]; h.y = x[i] >> 16;
    y[i] = __nv_cvt_halfraw2_to_FP(h, KIND, cudaRoundNearest);
}
extern "C" __global__ void to_halves(const unsigned short *x, unsigned *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __half2_raw h = __nv_cvt_FP_to_halfraw2(x[i], KIND);
    y[i] = h.x | h.y << 16;
}"""


def converted(kind: str, entry: str, arch: str, x: Array, dtype: type) -> Array:
    header, name, _ = FORMATS[kind]
    source = SOURCE.replace("FP", f"{header}x2").replace("KIND", name)
    kernel = engine.compile(source, entry, arch=arch)
    assert (f"{kind}x2" in kernel.ptx.replace("_", "")) == (arch == "sm_100a") or "cvt.rn.satfinite" not in kernel.ptx
    y: Array = np.zeros(4096, dtype)
    assert kernel.launch(16, 256, [x, y]).fault is None
    return y


def both(kind: str, entry: str, x: Array, dtype: type) -> Array:
    software, hardware = (converted(kind, entry, arch, x, dtype) for arch in ("sm_90", "sm_100a"))
    assert (software == hardware).all()
    return hardware


def nearest(kind: str, x: Array) -> Array:
    """The code of the nearest number, of two as near the even one; NaN is the largest."""
    numbers = np.array(FORMATS[kind][2])
    size = np.minimum(np.where(np.isnan(x), np.inf, np.abs(x.astype(np.float64))), numbers[-1])
    distance = np.abs(numbers - size[:, None]) + (np.arange(numbers.size) % 2) * 1e-12
    return distance.argmin(1) + numbers.size * (np.signbit(x) & ~np.isnan(x))


def pairs(kind: str, codes: Array) -> Array:
    return codes[::2] | codes[1::2] << (4 if kind == "e2m1" else 8)


@pytest.mark.parametrize("kind", FORMATS)
def test_floats_become_the_nearest_number(kind):
    numbers = np.array(FORMATS[kind][2], np.float32)
    middles = (numbers[1:] + numbers[:-1]) / 2
    near: list[Array] = [numbers, middles, np.nextafter(middles, np.float32(9)), np.nextafter(middles, np.float32(0)),
            np.array([np.inf, np.nan, 1e30, 1e-30, 6.0001, 29], np.float32)]  # fmt: skip
    beside = np.concatenate(near)
    edges = np.concatenate([beside, -beside])
    x = np.concatenate([edges, np.random.default_rng(0).normal(0, 3, 8192).astype(np.float32)])[:8192]
    assert (both(kind, "from_floats", x.reshape(-1, 2), np.uint16) == pairs(kind, nearest(kind, x))).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_halves_become_the_nearest_number(kind):
    x = np.arange(0, 65536, 8, dtype=np.uint16) + np.arange(8192, dtype=np.uint16) % 8
    assert (
        both(kind, "from_halves", x.view(np.uint32), np.uint16) == pairs(kind, nearest(kind, x.view(np.float16)))
    ).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_pair_becomes_its_numbers(kind):
    numbers = np.array(FORMATS[kind][2])
    codes = np.arange(4096, dtype=np.uint16)
    shift, count = (4, 16) if kind == "e2m1" else (8, 64)
    low, high = codes % count, codes // count % count
    values = np.concatenate([numbers, -numbers]).astype(np.float16).view(np.uint16).astype(np.uint32)
    got = both(kind, "to_halves", low | high << shift, np.uint32)
    assert (got == (values[low] | values[high] << 16)).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_unrecorded(kind):
    """Nothing of hardware to compare with: skipped, so that the report shows it."""
    names = [name for name in semantics.supported() if f"{kind}x2" in name]
    assert not [name for name in names if recordable(name)]
    pytest.skip(f"unrecorded: no GPU of sm_100a has answered the {len(names)} conversions of {kind}x2")


def test_sm_90_does_not_have_the_instructions():
    source = """extern "C" __global__ void k(const float *x, unsigned short *y) {
        asm("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %1, %1; mov.b16 %0, {t, 0}; }" : "=h"(*y) : "f"(*x)); }"""
    with pytest.raises(engine.CompileError, match="e2m1x2"):
        engine.compile(source, "k", arch="sm_90")
