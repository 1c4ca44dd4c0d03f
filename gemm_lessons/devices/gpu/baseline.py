"""cuBLAS on the same problem: the baseline for times, and the reference product for answers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gemm_lessons.devices.gpu.arena import Arena
from gemm_lessons.gemm import BufferLayout

# Values of cublasComputeType_t (cublas_api.h). The fp32 compute type uses TF32 only if the handle's math mode allows
# it; this handle's does not. For TF32 factors, ``FAST_TF32`` is used.
COMPUTE_TYPES = {"float16": 64, "float32": 68, "float64": 70, "int32": 72}
FAST_TF32 = 77
DEFAULT_MATH, DEFAULT_ALGORITHM = 0, -1
PLAIN, TRANSPOSED = 0, 1


@lru_cache(maxsize=1)
def open_cublas() -> tuple[Any, int]:
    """Return CuPy's binding of cuBLAS and a handle; takes some 0.2 s the first time. Raise ``ImportError``."""
    from cupy.cuda import cublas

    handle = cublas.create()
    cublas.setMathMode(handle, DEFAULT_MATH)
    return cublas, handle


class Cublas:
    """The library's product, in the same types and layouts where it takes them.

    cuBLAS is column-major. For it a row-major C is C^T = B^T A^T, and a row-major factor is its transpose.
    """

    def __init__(self, arena: Arena) -> None:
        self._api, self._handle = open_cublas()
        self.version = int(self._api.getVersion(self._handle))
        it = arena.multiplied
        target, product = it.target, it.product
        scalar = it.accumulate.storage
        self._one, self._zero = np.ones(1, scalar), np.zeros(1, scalar)
        compute = FAST_TF32 if "tf32" in (it.left.element.name, it.right.element.name) else 0
        factors = [(it.left, product.left_transposed), (it.right, product.right_transposed)]
        sizes = [target.rows, target.cols]
        by_rows = target.order == "row"
        if by_rows:
            factors.reverse()
            sizes.reverse()
        operations = [_operation(layout, transposed != by_rows) for layout, transposed in factors]
        (first, _), (second, _) = factors
        self._arguments: tuple[Any, ...] = (*operations, *sizes, arena.depth, self._one.ctypes.data)
        tail = (compute or COMPUTE_TYPES[it.accumulate.name], DEFAULT_ALGORITHM)
        stacked = target.batch > 1
        for layout in (first, second, target):
            if layout is target:
                self._arguments += (self._zero.ctypes.data,)
            stride = (layout.lines * layout.leading if layout.batch > 1 else 0,) * stacked
            self._arguments += (it.buffers[layout.name], layout.element.cuda, layout.leading, *stride)
        self._arguments += ((target.batch,) * stacked) + tail
        self._multiply = self._api.gemmStridedBatchedEx if stacked else self._api.gemmEx

    def start(self) -> None:
        """Queue one product."""
        self._multiply(self._handle, *self._arguments)


def _operation(layout: BufferLayout, transposed: bool) -> int:
    """Return cuBLAS's operation for a factor that enters the product as it is, or ``transposed``."""
    return TRANSPOSED if transposed != (layout.order == "row") else PLAIN
