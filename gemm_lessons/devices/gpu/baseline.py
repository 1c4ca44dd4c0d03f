"""cuBLAS on the same problem: what kernels are timed beside, and whose product they are compared with."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gemm_lessons.devices.gpu.arena import Arena
from gemm_lessons.gemm.data import BufferLayout

# Values of cublasComputeType_t (cublas_api.h). The fp32 compute type is the one that uses no TF32 unless the handle's
# math mode asks for it, and ours does not; factors that are TF32 ask for it.
COMPUTE_TYPES = {"float16": 64, "float32": 68, "float64": 70, "int32": 72}
FAST_TF32 = 77
DEFAULT_MATH, DEFAULT_ALGORITHM = 0, -1
PLAIN, TRANSPOSED = 0, 1


@lru_cache(maxsize=1)
def open_cublas() -> tuple[Any, int]:
    """CuPy's binding of cuBLAS and a handle; takes some 0.2 s the first time. Raises ``ImportError``."""
    from cupy.cuda import cublas

    handle = cublas.create()
    cublas.setMathMode(handle, DEFAULT_MATH)
    return cublas, handle


class Cublas:
    """The library's product in the same types and layouts.

    It counts columns first. A row-major C is its C^T = B^T A^T; a row-major factor is its transpose to it as well.
    """

    def __init__(self, arena: Arena) -> None:
        self._api, self._handle = open_cublas()
        self.version = int(self._api.getVersion(self._handle))
        target, product = arena.target, arena.product
        scalar = arena.accumulate.storage
        self._one, self._zero = np.ones(1, scalar), np.zeros(1, scalar)
        compute = FAST_TF32 if "tf32" in (arena.left.element.name, arena.right.element.name) else 0
        factors = [(arena.left, product.left_transposed), (arena.right, product.right_transposed)]
        sizes = [target.rows, target.cols]
        by_rows = target.order == "row"
        if by_rows:
            factors.reverse()
            sizes.reverse()
        operations = [_operation(layout, transposed != by_rows) for layout, transposed in factors]
        (first, _), (second, _) = factors
        self._arguments: tuple[Any, ...] = (*operations, *sizes, arena.depth, self._one.ctypes.data)
        tail = (compute or COMPUTE_TYPES[arena.accumulate.name], DEFAULT_ALGORITHM)
        stacked = target.batch > 1
        for layout in (first, second, target):
            if layout is target:
                self._arguments += (self._zero.ctypes.data,)
            stride = (layout.lines * layout.leading if layout.batch > 1 else 0,) * stacked
            self._arguments += (arena.buffers[layout.name], layout.element.cuda, layout.leading, *stride)
        self._arguments += ((target.batch,) * stacked) + tail
        self._multiply = self._api.gemmStridedBatchedEx if stacked else self._api.gemmEx

    def start(self) -> None:
        """Queue one product."""
        self._multiply(self._handle, *self._arguments)


def _operation(layout: BufferLayout, transposed: bool) -> int:
    """How cuBLAS has to read a factor that is wanted as it is, or ``transposed``."""
    return TRANSPOSED if transposed != (layout.order == "row") else PLAIN
