"""Measure the lessons of float16, and variants of them, beside cuBLAS in the same types: where
``lessons/measured/h200_halves.json`` comes from.

    python -m checks.course.halves compile DIR                # here: machine code of every kernel
    python -m checks.course.halves run DIR lessons/measured/h200_halves.json    # on a machine with the GPU and cupy

A and B are float16, C and the sums float32; everything else is as in ``measure`` and ``variants``. At some sizes a line
has errors besides, relative in the Frobenius norm: ``error`` against the product in float64 of what the kernel is
given, ``error_floats`` against that of the float32 numbers that were rounded to float16, ``error_positive`` as
``error``, of the magnitudes of these numbers. ``cublas float32`` is cuBLAS in float32 on the same numbers, for its
errors alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from checks.course.kernel import Kernel
from checks.course.measure import (
    COLD,
    COMPUTE_32F,
    FLOAT32,
    SPIN_CLOCKS,
    WARM,
    Bench,
    Call,
    every_size,
    machine,
    main,
    write,
)
from checks.course.variants import Variant, tiled
from gemm_lessons.gemm.shapes import Shape

ROUNDS = {512: 30, 1024: 30, 2048: 20, 4096: 11, 8192: 7}
PRECISE = (1024, 4096)  # sizes whose errors are noted
FLOAT16 = 2  # cudaDataType_t
TRUNCATED = 8.0  # times the error of rounding to nearest that tensor cores may have
HALF_SUMS = "tensor_cores half sums"
IN_FLOAT32 = "cublas float32"

TWO_BUFFERS = (
    ("half As[BM]", "half As[2][BM]"),
    ("half Bs[BK]", "half Bs[2][BK]"),
    ("store = [&]()", "store = [&](int buffer)"),
    ("multiply = [&]()", "multiply = [&](int buffer)"),
    ("half8_at(As[", "half8_at(As[buffer]["),
    ("half8_at(Bs[", "half8_at(Bs[buffer]["),
    ("&As[", "&As[buffer]["),
    ("&Bs[", "&Bs[buffer]["),
    (
        """\
    for (int k0 = 0; k0 < K; k0 += BK) {
        store();
        __syncthreads();
        fetch(min(k0 + BK, K - BK)); // behind the last tile the last one again, which nobody uses
        multiply();
        __syncthreads();
    }
""",
        """\
    const auto turn = [&](int now, int k0) {
        fetch(k0);
        multiply(now);
        store(1 - now);
        __syncthreads();
    };
    store(0);
    __syncthreads();
    int k0 = BK;
    for (; k0 + BK < K; k0 += 2 * BK) {
        turn(0, k0);
        turn(1, k0 + BK);
    }
    if (k0 < K) {
        turn(0, k0);
        multiply(1);
    } else {
        multiply(0);
    }
""",
    ),
)

VARIANTS: tuple[Variant, ...] = (
    tiled("tensor_cores"),
    tiled("tensor_cores WN32", WN=32),
    tiled("tensor_cores WM32 WN32", WM=32, WN=32, BLOCKS_PER_SM=1),
    Variant("tensor_cores two buffers", {}, TWO_BUFFERS),
    Variant("tensor_cores no fetch ahead", {}, pitfall="no_fetch_ahead"),
    Variant("tensor_cores rows in order", {}, pitfall="rows_in_order"),
    Variant("tensor_cores no padding", {}, pitfall="no_padding"),
    Variant(HALF_SUMS, {}, pitfall="half_sums"),
    tiled("async_copy"),
    tiled("async_copy no bands", BAND=1),
    tiled("async_copy STAGES2", STAGES=2),
    tiled("async_copy STAGES4", STAGES=4),
    tiled("async_copy BK32 STAGES3", BK=32, STAGES=3),
    tiled("async_copy BK32 STAGES4", BK=32, STAGES=4),
    tiled("async_copy BK32 STAGES5", BK=32, STAGES=5),
    tiled("async_copy BN64", BM=128, BN=64, WN=32, BLOCKS_PER_SM=3),
    tiled("async_copy BN256", BM=128, BN=256),
    tiled("async_copy BM128", BM=128, BLOCKS_PER_SM=2),
    Variant("async_copy copies first", {}, pitfall="copies_first"),
    Variant("async_copy copies last", {}, pitfall="copies_last"),
    Variant("async_copy wait for all", {}, pitfall="wait_for_all"),
)


def kernels() -> list[Kernel]:
    return [variant.kernel() for variant in VARIANTS]


class Halves(Bench):
    """As its base, with A and B in float16. A kernel that spins waits for cuBLAS's host code."""

    spins: ClassVar[Mapping[str, int]] = {WARM: 4 * SPIN_CLOCKS, COLD: 4 * SPIN_CLOCKS}

    def random(self, *shape: int) -> Any:
        return super().random(*shape).astype(self.cupy.float16)

    def call(self, name: str, a: Any, b: Any, c: Any, *rest: Any, **more: Any) -> Call:
        assert c.dtype == self.cupy.float32, "C is in float32: in float16 half of it would lie behind its end"
        if name not in ("cublas", IN_FLOAT32):
            return super().call(name, a, b, c, *rest, **more)
        kind = FLOAT16
        if name == IN_FLOAT32:
            a, b, kind = a.astype(self.cupy.float32), b.astype(self.cupy.float32), FLOAT32
        (m, n), k = c.shape, a.shape[1]
        one, zero = (scalar.ctypes.data for scalar in self.scalars)
        given = (one, b.data.ptr, kind, n, a.data.ptr, kind, k, zero, c.data.ptr, FLOAT32, n, COMPUTE_32F, -1)
        multiply = partial(self.cublas.gemmEx, self.handle, 0, 0, n, m, k, *given)
        return lambda held=(a, b): multiply()  # type: ignore[misc]  # copies live as long as the call

    def compare(self, calls: Mapping[str, Call], c: Any, reference: Any, shape: Shape) -> None:
        for name, error in self.errors(calls, c, reference).items():
            allowed = TRUNCATED * 2**-24 * max(shape.k, 4) ** 0.5
            assert error <= allowed or name == HALF_SUMS, f"{name} {shape}: relative error {error}, allowed {allowed}"

    def errors(self, calls: Mapping[str, Call], c: Any, reference: Any) -> dict[str, float]:
        """Of every kernel, on a poisoned C."""
        norm = self.cupy.linalg.norm
        found = {}
        for name, call in calls.items():
            c.fill(self.cupy.nan)
            call()
            found[name] = float(norm(c - reference) / norm(reference))
        return found

    def precision(self, n: int, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """The errors at n^3, by kernel."""
        cupy = self.cupy
        floats = [Bench.random(self, n, n) for _ in range(2)]
        c = cupy.empty((n, n), cupy.float32)
        exact = cupy.matmul(*(it.astype(cupy.float64) for it in floats))
        found: dict[str, dict[str, float]] = {name: {} for name in names}
        for field, factors in (("error", floats), ("error_positive", [abs(it) for it in floats])):
            a, b = (it.astype(cupy.float16) for it in factors)
            calls = {name: self.call(name, a, b, c) for name in names}
            product = cupy.matmul(a.astype(cupy.float64), b.astype(cupy.float64))
            for name, error in self.errors(calls, c, product).items():
                found[name][field] = float(f"{error:.3g}")
            if field == "error":
                for name, error in self.errors(calls, c, exact).items():
                    found[name]["error_floats"] = float(f"{error:.3g}")
        return found


def rounds(name: str, n: int) -> int:
    """Launches of a kernel at n^3."""
    return ROUNDS[n]


def with_errors(bench: Halves, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines, those of the ``PRECISE`` sizes with their errors, and one more for cuBLAS in float32."""
    found = list(rows)
    for n in PRECISE:
        here = {row["kernel"]: row for row in found if row["size"] == n}
        for name, errors in bench.precision(n, (*here, IN_FLOAT32)).items():
            if name in here:
                here[name].update(errors)
            else:
                found.append({"kernel": name, "size": n, **errors})
    return found


def run(folder: Path, target: Path) -> None:
    bench = Halves(folder)
    rows = every_size(bench, ROUNDS, (WARM, COLD), rounds)
    about = {
        "command": "python -m checks.course.halves compile DIR; python -m checks.course.halves run DIR FILE",
        **machine(bench),
        "what": "C = A B, A and B float16, C and the sums float32, square, standard normal inputs. Solutions and"
        " variants, one change each (checks/course/halves.py), and cuBLAS (gemmEx, CUBLAS_COMPUTE_32F); one launch of"
        " each a round, in a new order each time; every answer compared with float64 before timing.",
        "how": "CUDA events around one launch, median over the repeats. warm: the launch hidden behind another kernel."
        " cold: hidden behind a fill of 128 MiB, so that L2 is cold. percent_of_cublas is cuBLAS's median over the"
        " kernel's, of the same size and way. Errors are relative, in the Frobenius norm: error against float64 on the"
        " same float16 numbers, error_floats against float64 on the float32 numbers that were rounded, error_positive"
        " as error, of magnitudes.",
    }
    write(target, about, with_errors(bench, rows))


if __name__ == "__main__":
    main(kernels, run)
