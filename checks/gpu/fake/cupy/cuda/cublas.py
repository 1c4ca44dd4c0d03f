import os

import numpy as np

if "nocublas" in os.environ.get("FAKE_GPU", ""):
    raise ImportError("libcublas.so.13 not found")


def create():
    from cupy.cuda import runtime

    runtime.context()
    return 1


def setMathMode(handle, mode):
    assert mode == 0


def getVersion(handle):
    return 130200


def gemmEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm):
    from cupy.cuda.kernels import floats

    assert (a_type, b_type, c_type, compute, lda, ldb, ldc) == (0, 0, 0, 68, m, k, m)
    left, right = (pointer.to_bytes(8, "little") for pointer in (b, a))
    out = floats(c.to_bytes(8, "little"), n, m)
    np.matmul(floats(left, n, k), floats(right, k, m), out=out)
