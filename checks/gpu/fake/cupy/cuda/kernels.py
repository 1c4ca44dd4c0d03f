"""The fake kernels. Each entry makes a fresh kernel, as loading a module does: ``kernel(grid, raw arguments)``."""

import ctypes
import struct
import time

import numpy as np

from cupy.cuda import runtime


def floats(raw, rows, cols):
    pointer = int.from_bytes(raw, "little")
    return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (rows, cols))


def unpack(arguments):
    m, n, k = (int.from_bytes(raw, "little") for raw in arguments[3:6])
    return floats(arguments[0], m, k), floats(arguments[1], k, n), floats(arguments[2], m, n)


def gemm(_):
    def kernel(grid, arguments):
        a, b, c = unpack(arguments)
        c[...] = a @ b

    return kernel


def scaled(width):
    """Right for C = (A * repeat(scale, width, axis=1)) @ B, with scale column-major after C."""

    def kernel(grid, arguments):
        m, n, k = (int.from_bytes(raw, "little") for raw in arguments[4:7])
        a, b, c = floats(arguments[0], m, k), floats(arguments[1], k, n), floats(arguments[2], m, n)
        scale = floats(arguments[3], k // int(width), m).T
        c[...] = (a * np.repeat(scale, int(width), axis=1)) @ b

    return kernel


def stub(_):
    return lambda grid, arguments: None


def hang(_):
    def kernel(grid, arguments):
        while True:
            time.sleep(1)

    return kernel


def fault(number):
    def kernel(grid, arguments):
        runtime.state["poisoned"] = int(number)

    return kernel


def overrun(_):
    """Right, but writes one float beyond the end of C."""

    def kernel(grid, arguments):
        a, b, c = unpack(arguments)
        c[...] = a @ b
        ctypes.memset(c.ctypes.data + c.nbytes, 0, 4)

    return kernel


def lazy(_):
    """Computes once; later launches return the first result."""
    kept: list[np.ndarray] = []

    def kernel(grid, arguments):
        a, b, c = unpack(arguments)
        if not kept:
            kept.append(a @ b)
        c[...] = kept[0]

    return kernel


def counter(_):
    """Counts its own launches in its first buffer: a module's variables must not outlive a launch."""
    calls = [0]

    def kernel(grid, arguments):
        calls[0] += 1
        floats(arguments[0], 1, 1)[...] = calls[0]

    return kernel


def struct_reader(_):
    """A struct {float *data; int rows, cols}: doubles what it points to."""

    def kernel(grid, arguments):
        rows, cols = struct.unpack_from("<ii", arguments[0], 8)
        data = floats(arguments[0][:8], rows, cols)
        data *= 2

    return kernel


def crash(_):
    return lambda grid, arguments: ctypes.string_at(0)


hasty = [int(runtime.scene.get("hasty", 0))]  # number of times that the queue is not held


def hold_queue(grid, arguments):
    """Do nothing, as kernels end before the call returns; the first times of a hasty scene report that it gave up."""
    gave_up, turn = (int.from_bytes(raw, "little") for raw in arguments[1:3])
    if hasty[0]:
        hasty[0] -= 1
        ctypes.c_uint32.from_address(gave_up).value = turn


KERNELS = {
    "gemm": gemm, "scaled": scaled, "stub": stub, "hang": hang, "fault": fault, "overrun": overrun, "lazy": lazy,
    "counter": counter, "struct": struct_reader, "crash": crash,
}  # fmt: skip
