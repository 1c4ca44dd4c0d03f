"""A stand-in for CuPy and cuBLAS where there is no GPU, as far as ``bench`` uses them: arrays are NumPy's, launches are
noted and compute nothing, cuBLAS multiplies, and a quarter of a millisecond is between any two events."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from checks.course.bench import COMPUTE_16F, NOTHING, Bench, Call
from gemm_lessons.course.lesson import Lesson

TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 10: np.int32, 14: np.uint16}  # cudaDataType_t
FLOAT16, BFLOAT16 = 2, 14


class Array(np.ndarray[Any, Any]):
    """An array with an address, as CuPy's have it."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


def array(given: Any) -> Array:
    return np.asarray(given).view(Array)


class Function:
    """A kernel; ``launches`` has what all of them were launched with."""

    launches: ClassVar[list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[Any, ...], int]]] = []

    def __init__(self, name: str) -> None:
        self.name = name
        self.max_dynamic_shared_size_bytes = 48 * 1024

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...], shared_mem: int = 0
    ) -> None:
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        self.launches.append((self.name, grid, block, arguments, shared_mem))
        for clocks in (it for it in arguments if isinstance(it, Array) and it.dtype == np.int64):
            clocks.fill(1000)


class Module:
    def __init__(self, path: str) -> None:
        assert Path(path).exists()

    def get_function(self, name: str) -> Function:
        return Function(name)


class Event:
    def record(self) -> None: ...

    def synchronize(self) -> None: ...


def read(pointer: int, kind: int, rows: int, cols: int) -> Array:
    """A matrix in memory as cuBLAS sees it: ``cols`` columns of ``rows`` numbers."""
    element: Any = np.dtype(TYPES[kind])
    raw: Any = (ctypes.c_char * (rows * cols * element.itemsize)).from_address(pointer)
    return array(np.frombuffer(raw, element).reshape(cols, rows).T)


def gemm_ex(
    handle: int, trans_a: int, trans_b: int, m: int, n: int, k: int, alpha: int, a: int, a_type: int, lda: int,
    b: int, b_type: int, ldb: int, beta: int, c: int, c_type: int, ldc: int, compute: int, algorithm: int,
) -> None:  # fmt: skip
    assert lda == (k if trans_a else m)
    assert ldb == (n if trans_b else k)
    assert ldc == m
    scalars = FLOAT16 if compute == COMPUTE_16F else 0 if c_type in (FLOAT16, BFLOAT16) else c_type  # 0: float32
    assert (read(alpha, scalars, 1, 1).item(), read(beta, scalars, 1, 1).item()) == (1, 0)
    left: Any
    right: Any
    left, right = read(a, a_type, lda, m if trans_a else k), read(b, b_type, ldb, k if trans_b else n)
    if a_type == BFLOAT16:
        left, right = ((it.astype(np.uint32) << 16).view(np.float32) for it in (left, right))
    left, right = (it.T if way else it for it, way in ((left, trans_a), (right, trans_b)))
    read(c, c_type, ldc, n)[...] = stored(left.astype(np.float64) @ right.astype(np.float64), c_type == BFLOAT16)


def stored(product: Any, narrow: bool) -> Any:
    """The product as C holds it; ``narrow``: rounded to bfloat16, as bits in uint16."""
    if not narrow:
        return product
    return ((np.asarray(product).astype(np.float32).view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def installed(patch: pytest.MonkeyPatch) -> None:
    """Let ``import cupy`` give the stand-in."""
    random: Any = np.random.default_rng(1)
    Function.launches.clear()
    cupy = ModuleType("cupy")
    names = "float32 float64 int8 int32 int64 uint8 uint16 uint32 nan linalg matmul maximum abs isnan".split()
    vars(cupy).update({name: getattr(np, name) for name in names})
    vars(cupy).update(
        __version__="14.2.0",
        RawModule=Module,
        empty=lambda shape, kind: array(np.empty(shape, kind)),
        zeros=lambda shape, kind: array(np.zeros(shape, kind)),
        zeros_like=np.zeros_like,
        full=lambda shape, value, kind: array(np.full(shape, value, kind)),
        asnumpy=np.asarray,
        random=SimpleNamespace(
            standard_normal=lambda shape, dtype: array(random.standard_normal(shape).astype(dtype)),
            randint=lambda low, high, shape, dtype: array(random.integers(low, high, shape, dtype)),
        ),
    )
    runtime = SimpleNamespace(
        memsetAsync=lambda *_: None,
        driverGetVersion=lambda: 13000,
        getDeviceProperties=lambda _: {"name": b"Fake GPU"},
    )
    cublas = SimpleNamespace(create=lambda: 1, getVersion=lambda _: 130100, gemmEx=gemm_ex)
    cuda = ModuleType("cupy.cuda")
    vars(cuda).update(
        cublas=cublas,
        runtime=runtime,
        Event=Event,
        Device=lambda: SimpleNamespace(pci_bus_id="0"),
        get_elapsed_time=lambda start, stop: 0.25,
    )
    vars(cupy)["cuda"] = cuda
    patch.setitem(sys.modules, "cupy", cupy)
    patch.setitem(sys.modules, "cupy.cuda", cuda)
    patch.setattr("checks.course.bench.FLUSH_BYTES", 1024)
    patch.setattr(Bench, "settle", lambda _: None)
    patch.setattr(Bench, "tensor_maps", lambda self, lesson, *_: {one.name: object() for one in lesson.data.maps})
    patch.setattr(Bench, "textures_of", lambda self, lesson, known: dict.fromkeys(textures(lesson), object()))


def textures(lesson: Lesson) -> Iterator[str]:
    """Parameters of the lesson's launches that are textures."""
    for launch in lesson.launches:
        yield from (it.name for it in lesson.parameters(launch) if it.kind == "texture")


class Multiplied(Bench):
    """A bench whose kernels also compute their product and bias with NumPy, except the ``broken`` one. ``known``: A, B
    and their product, which kernels share."""

    broken = ""
    known: tuple[Any, ...] = ()

    def kernel(self, name: str, a: Any, b: Any, c: Any, layout: str = "NN", more: Mapping[str, Any] = NOTHING) -> Call:
        launch, kind = super().kernel(name, a, b, c, layout, more), self.lessons[name].data.by_name["A"].element.name
        if not (self.known and self.known[0] is a and self.known[1] is b and self.known[2:4] == (kind, layout)):
            self.known = a, b, kind, layout, self.product(kind, a, b, layout)
        right = self.known[-1]

        def call() -> None:
            launch()
            if name == self.broken:
                return
            product = self.expected(name, c, right)
            if "bias" in more:
                product = np.maximum(product + more["bias"] + (more["beta"] * c if more["beta"] else 0), 0)
            c[...] = stored(product, c.dtype == np.uint16)

        return call


class Lt:
    """cuBLASLt's relu(A B + bias)."""

    def __init__(self, bench: Bench) -> None: ...

    def call(self, a: Any, b: Any, bias: Any, c: Any) -> Call:
        def call() -> None:
            c[...] = np.maximum(a @ b + bias, 0)

        return call


def unfused(bench: Bench, c: Any, bias: Any) -> Call:
    """``epilogues.unfused``, computed."""

    def call() -> None:
        c[...] = np.maximum(c + bias, 0)

    return call


class Driver:
    """A driver that always says the same of power, clock and limit."""

    def __init__(self, bus: str) -> None:
        self.process = SimpleNamespace(terminate=lambda: None)

    def between(self, start: float, stop: float) -> tuple[float, ...]:
        return 500.0, 1700.0, 700.0
