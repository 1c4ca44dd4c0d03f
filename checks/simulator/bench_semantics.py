"""How long the common instructions take: microseconds a call at 1024 and 4096 lanes. Printed, never asserted.

python -m checks.simulator.bench_semantics [NAME ...]
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from checks.simulator import semantics_cases as cases
from checks.usage import help_if_asked
from gemm_lessons.engine.semantics import table as semantics

COMMON = (
    "add.s32 sub.s32 mul.lo.s32 mad.lo.s32 mul.hi.u32 mul.wide.s32 mad.wide.s32 mul.wide.u32 div.s32 rem.u32 div.u64 "
    "min.s32 max.u32 and.b32 or.b32 xor.b32 not.b32 and.pred shl.b32 shr.u32 shr.s32 shl.b64 shf.l.wrap.b32 bfe.u32 "
    "bfi.b32 popc.b32 clz.b32 prmt.b32 lop3.b32 dp4a.s32.s32 setp.lt.s32 setp.ge.and.u32 setp.ne.s64 setp.lt.f32 "
    "setp.ne.f32 selp.b32 selp.f32 selp.b64 mov.b32 cvt.u64.u32 cvt.s64.s32 cvt.u32.u64 cvt.rn.f32.s32 cvt.rzi.s32.f32 "
    "cvt.f64.f32 cvt.rn.f32.f64 cvt.f32.f16 cvt.rn.f16.f32 cvt.f32.bf16 cvt.rn.bf16.f32 cvt.rn.f16x2.f32 "
    "add.f32 mul.f32 fma.rn.f32 fma.rn.ftz.f32 div.rn.f32 sqrt.rn.f32 max.f32 neg.f32 abs.f32 add.rz.f32 "
    "add.f64 fma.rn.f64 add.f16 fma.rn.f16 fma.rn.f16x2 fma.rn.bf16x2 ex2.approx.ftz.f32 rcp.approx.ftz.f32"
).split()


def operands(code: str, lanes: int, rng: np.random.Generator) -> np.ndarray:
    """Ordinary numbers: what kernels compute with, not edge cases."""
    dtype = np.dtype(semantics.DTYPES[code])
    if code in ("f16", "f32", "f64"):
        return rng.standard_normal(lanes).astype(dtype)
    if code in ("f16x2", "bf16x2", "bf16"):
        half = rng.standard_normal((lanes, 2)).astype(np.float16).view(np.uint16)
        if code != "f16x2":
            half = (rng.standard_normal((lanes, 2)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return half[:, 0].copy() if code == "bf16" else half.view(np.uint32)[:, 0].copy()
    return rng.integers(0, 100, lanes).astype(dtype)


def microseconds(name: str, lanes: int) -> float:
    """Median time of one call on so many lanes."""
    operation = cases.operation_of(name, 1)
    rng = np.random.default_rng(1)
    sources = [operands(code, lanes, rng) for code in operation.sources]
    if name == "lop3.b32":
        sources[3] = np.uint32(0xE8)  # type: ignore[call-overload]
    outs = [np.zeros(lanes, dtype) for dtype in cases.result_dtypes(operation)]
    times = []
    with semantics.float_state():
        for _ in range(15):
            start = time.perf_counter()
            for _ in range(20):
                operation.function(*outs, *sources)
            times.append((time.perf_counter() - start) / 20 * 1e6)
    return statistics.median(times)


if __name__ == "__main__":
    help_if_asked(__doc__)
    print(f"{'':24}{'1024':>9}{'4096':>9}  lanes, us")
    for chosen in sys.argv[1:] or COMMON:
        print(f"{chosen:24}{microseconds(chosen, 1024):9.2f}{microseconds(chosen, 4096):9.2f}")
