"""The equality suite: kernels and their launches, for the GPU launcher and the simulator's tests alike.

Data is given by formulas, not by a random generator, so that every machine and NumPy version computes the same: some
kernels' addresses depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from checks.estimate.matrices import CASES
from gemm_lessons.course.folder import Course
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar, StructWithBuffers
from gemm_lessons.gemm.problem import Problem

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
ROOT = HERE.parent.parent


@dataclass(frozen=True)
class Array:
    """A buffer of ``size`` values. Integers: ``(i * step + start) % modulus``; floats: multiples of 1/64 in [-8, 8)."""

    size: int
    dtype: str = "float32"
    step: int = 1
    start: int = 0
    modulus: int = 1 << 30
    columns: int = 1  # elements per value for vector types: float4 is dtype float32, columns 4

    def values(self) -> npt.NDArray[np.generic]:
        i = np.arange(self.size * self.columns, dtype=np.int64)
        if np.dtype(self.dtype).kind == "f":
            return ((i * 7919 % 1021 - 512) / 64).astype(self.dtype)
        return ((i * self.step + self.start) % self.modulus).astype(self.dtype)


@dataclass(frozen=True)
class View:
    """A ``Matrix`` of lessons/common/matrix.cuh by value: pointer, rows, cols, row stride, column stride."""

    array: Array
    rows: int
    cols: int
    row_stride: int
    col_stride: int


Given = Array | View | int


@dataclass(frozen=True)
class Case:
    """One launch: the kernel, the shape, the arguments (``given``), and the access pattern that it ``covers``."""

    name: str
    file: Path
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    given: tuple[Given, ...] | Problem
    covers: str
    dynamic_shared: int = 0
    defines: Mapping[str, str | int] = field(default_factory=dict)
    include_dirs: tuple[Path, ...] = ()
    parameters: tuple[str, ...] = ()  # of a Problem's launch
    arch: str = "sm_90"

    @property
    def shape(self) -> Grid:
        """The launch."""
        return Grid(self.grid, self.block, self.dynamic_shared)

    def arguments(self) -> tuple[Argument, ...]:
        """Fresh arguments; every buffer may be written."""
        if isinstance(self.given, Problem):
            return self.given.trial().arguments(self.parameters)
        return tuple(_argument(f"argument {number}", given) for number, given in enumerate(self.given))

    @property
    def key(self) -> str:
        """Names the compiled kernel: cases that differ only in their launch share it."""
        defines = "".join(f" -D{name}={value}" for name, value in self.defines.items())
        return f"{self.file.parent.name}/{self.file.stem}/{self.entry}{defines}"


def _argument(name: str, given: Given) -> Argument:
    if isinstance(given, Array):
        return Buffer(name, given.values(), output=True)
    if isinstance(given, View):
        sizes = np.array([given.rows, given.cols, given.row_stride, given.col_stride], np.int32)
        return StructWithBuffers(name, bytes(8) + sizes.tobytes(), {0: Buffer(name, given.array.values(), output=True)})
    return Scalar(name, np.uint32(given) if given >= 1 << 31 else np.int32(given))


def _three(value: int | Sequence[int]) -> tuple[int, int, int]:
    numbers = [value] if isinstance(value, int) else list(value)
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def _case(
    name: str,
    file: str,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    given: Sequence[Given],
    covers: str,
    dynamic_shared: int = 0,
) -> Case:
    return Case(
        name,
        KERNELS / file,
        entry,
        _three(grid),
        _three(block),
        tuple(given),
        covers,
        dynamic_shared=dynamic_shared,
        include_dirs=(ROOT / "lessons" / "common",),
    )


def _global_cases() -> list[Case]:
    def copy(name: str, t: str, stride: int, offset: int, n: int, block: int, covers: str) -> Case:
        dtype, columns = {
            "float": ("float32", 1),
            "float2": ("float32", 2),
            "float4": ("float32", 4),
            "double": ("float64", 1),
            "short": ("int16", 1),
            "char": ("int8", 1),
        }[t]
        size = n * stride + offset + 1
        entry = f"copy<{t}, {stride}, {offset}>"
        buffers = [Array(size, dtype, modulus=100, columns=columns)] * 2
        return _case(name, "global_patterns.cu", entry, -(-n // block), block, [*buffers, n], covers)

    pair = [Array(4096), Array(4096)]
    return [
        copy("copy_coalesced", "float", 1, 0, 1024, 128, "coalesced"),
        copy("copy_ragged", "float", 1, 0, 1000, 128, "coalesced, ragged end"),
        copy("copy_stride2", "float", 2, 0, 512, 128, "strided"),
        copy("copy_stride5", "float", 5, 0, 512, 64, "strided"),
        copy("copy_stride32", "float", 32, 0, 256, 128, "strided"),
        copy("copy_misaligned1", "float", 1, 1, 512, 128, "misaligned"),
        copy("copy_misaligned7", "float", 1, 7, 512, 128, "misaligned"),
        copy("copy_float2", "float2", 1, 0, 512, 128, "64-bit, coalesced"),
        copy("copy_float2_stride3", "float2", 3, 1, 512, 128, "64-bit, strided, misaligned"),
        copy("copy_float4", "float4", 1, 0, 512, 128, "128-bit, coalesced"),
        copy("copy_float4_misaligned", "float4", 1, 1, 512, 128, "128-bit, misaligned"),
        copy("copy_float4_stride3", "float4", 3, 0, 256, 64, "128-bit, strided"),
        copy("copy_double", "double", 1, 0, 300, 96, "double, ragged end"),
        copy("copy_short", "short", 1, 3, 512, 128, "16-bit, misaligned"),
        copy("copy_char", "char", 1, 5, 512, 128, "8-bit, misaligned"),
        copy("copy_block33", "float", 1, 0, 99, 33, "partial warps"),
        copy("copy_block47_float4", "float4", 1, 0, 90, 47, "partial warps, 128-bit"),
        copy("copy_block1", "float", 1, 0, 5, 1, "one thread a block"),
        _case("broadcast_32", "global_patterns.cu", "broadcast<32>", 4, 128, [*pair, 512], "broadcast"),
        _case("broadcast_8", "global_patterns.cu", "broadcast<8>", 4, 100, [*pair, 390], "broadcast, partial warps"),
        _case("scatter", "global_patterns.cu", "scatter", 4, 128, [*pair, 509], "scattered, reversed"),
        _case("masked_even", "global_patterns.cu", "masked", 2, 64, [*pair, 0x55555555], "predicated lanes"),
        _case("masked_upper", "global_patterns.cu", "masked", 2, 64, [*pair, 0x7FFF0000], "predicated lanes"),
        _case("masked_none", "global_patterns.cu", "masked", 2, 64, [*pair, 0], "no lane active"),
        _case("ragged_rows", "global_patterns.cu", "ragged_rows", (2, 3), (32, 8), [*pair, 19, 37], "whole warps off"),
    ]


def _shared_cases() -> list[Case]:
    buffers = [Array(1024), Array(1024)]

    def strided(t: str, stride: int, block: int, covers: str) -> Case:
        name = f"shared_{t}_stride{stride}" + (f"_block{block}" if block != 64 else "")
        return _case(name, "shared_patterns.cu", f"strided<{t}, {stride}>", 2, block, buffers, covers)

    def uniform(t: str, group: int, stride: int, covers: str) -> Case:
        name = f"uniform_{t}_{group}_stride{stride}"
        return _case(name, "shared_patterns.cu", f"uniform<{t}, {group}, {stride}>", 1, 64, buffers, covers)

    def paired(t: str, distance: int) -> Case:
        entry = f"paired<{t}, {distance}>"
        return _case(f"paired_{t}_{distance}", "shared_patterns.cu", entry, 1, 64, buffers, "pairs of equal lanes")

    def masked(t: str, stride: int, mask: int) -> Case:
        entry = f"masked<{t}, {stride}>"
        return _case(
            f"masked_{t}_stride{stride}_{mask:08x}",
            "shared_patterns.cu",
            entry,
            1,
            96,
            [*buffers, mask],
            "predicated lanes",
        )

    ways = {1: "no conflict", 2: "2 ways", 4: "4 ways", 8: "8 ways", 16: "16 ways", 32: "32 ways", 33: "padded"}
    return [
        *(strided("float", s, 64, f"scalar, {w}") for s, w in ways.items()),
        *(strided("float2", s, 64, f"64-bit, stride {s}") for s in (1, 2, 4, 8, 16, 17)),
        *(strided("float4", s, 64, f"128-bit, stride {s}") for s in (1, 2, 3, 4, 8, 9)),
        *(strided("double", s, 64, f"double, stride {s}") for s in (1, 2, 3)),
        strided("float4", 1, 40, "128-bit, partial warp"),
        strided("float4", 2, 44, "128-bit, partial warp"),
        strided("float2", 1, 50, "64-bit, partial warp"),
        strided("float2", 4, 37, "64-bit, partial warp"),
        strided("float", 2, 45, "scalar, partial warp"),
        *(uniform("float4", g, 2, f"128-bit, uniform per {g} lanes") for g in (2, 4, 8, 16, 32)),
        *(uniform("float2", g, 4, f"64-bit, uniform per {g} lanes") for g in (2, 8, 16, 32)),
        *(uniform("float", g, 32, f"scalar, uniform per {g} lanes") for g in (8, 16)),
        *(paired(t, d) for t in ("float2", "float4") for d in (1, 2, 4)),
        *(
            masked(t, s, m)
            for t in ("float", "float2", "float4")
            for s, m in ((1, 0x0000FFFF), (2, 0x11111111), (3, 0x80000001))
        ),
        _case("dynamic_rows_33", "shared_patterns.cu", "rows", 1, 64, [Array(2048), Array(1024), 33], "dynamic", 4224),
        _case("dynamic_rows_20", "shared_patterns.cu", "rows", 1, 64, [Array(2048), Array(1024), 20], "dynamic", 2560),
        *(
            _case(
                f"transpose_{layout.lower()}",
                "transpose.cu",
                f"transpose<{layout}>",
                (2, 2),
                (32, 8),
                [Array(4096), Array(4096), 50, 61],
                f"{layout.lower()} layout, ragged edges",
            )
            for layout in ("PLAIN", "PADDED", "SWIZZLED")
        ),
        _case(
            "transpose_vector",
            "transpose.cu",
            "transpose_vector",
            (2, 2),
            256,
            [Array(1024, columns=4), Array(1024, columns=4), 64, 64],
            "padded layout, 128-bit",
        ),
    ]


def _gemm_cases() -> list[Case]:
    def gemm(
        name: str,
        entry: str,
        shape: tuple[int, int, int],
        tile: tuple[int, int],
        block: Sequence[int],
        covers: str,
        dtype: str = "float32",
    ) -> Case:
        m, n, k = shape
        grid = (-(-n // tile[1]), -(-m // tile[0]))
        arrays = [Array(m * k, dtype, modulus=17), Array(k * n, dtype, modulus=13), Array(m * n, dtype, modulus=2)]
        return _case(name, "gemm.cu", entry, grid, block, [*arrays, m, n, k], covers)

    return [
        gemm("gemm_naive", "naive", (45, 37, 29), (16, 16), (16, 16), "ragged edges, broadcast"),
        gemm("gemm_naive_32x8", "naive", (40, 96, 64), (8, 32), (32, 8), "broadcast, coalesced"),
        gemm("gemm_block16", "block_tile<16>", (48, 64, 80), (16, 16), (16, 16), "unrolled loop, uniform halves"),
        gemm("gemm_block32", "block_tile<32>", (64, 96, 64), (32, 32), (32, 32), "unrolled loop"),
        gemm("gemm_block16_ragged", "block_tile<16>", (45, 37, 29), (16, 16), (16, 16), "ragged edges"),
        gemm("gemm_block32_ragged", "block_tile<32>", (45, 37, 29), (32, 32), (32, 32), "ragged edges"),
        gemm("gemm_block12", "block_tile<12>", (24, 36, 48), (12, 12), (12, 12), "partial warps"),
        gemm("gemm_block20", "block_tile<20>", (40, 40, 60), (20, 20), (20, 20), "partial warps"),
        *(
            gemm(f"gemm_padded{p}", f"padded_tile<{p}>", (32, 64, 64), (32, 32), (32, 32), "padded, unrolled")
            for p in (0, 1, 2, 4)
        ),
        gemm("gemm_thread4", "thread_tile<64, 64, 8, 4, 4, false>", (64, 128, 32), (64, 64), (256,), "thread tile"),
        gemm("gemm_thread4_t", "thread_tile<64, 64, 8, 4, 4, true>", (64, 128, 32), (64, 64), (256,), "thread tile"),
        gemm(
            "gemm_thread8", "thread_tile<128, 128, 8, 8, 8, false>", (128, 256, 24), (128, 128), (256,), "thread tile"
        ),
        gemm(
            "gemm_thread8_t", "thread_tile<128, 128, 8, 8, 8, true>", (128, 256, 24), (128, 128), (256,), "thread tile"
        ),
        gemm("gemm_thread_odd", "thread_tile<48, 36, 12, 6, 3, true>", (48, 72, 36), (48, 36), (96,), "odd tile"),
        gemm("gemm_thread2", "thread_tile<32, 32, 16, 2, 2, false>", (64, 64, 48), (32, 32), (256,), "thread tile"),
        gemm("gemm_vector", "vector_tile<false>", (128, 256, 32), (128, 128), (256,), "128-bit accesses"),
        gemm("gemm_vector_swizzled", "vector_tile<true>", (128, 256, 32), (128, 128), (256,), "swizzled, 128-bit"),
        gemm("gemm_double_buffer", "double_buffer", (128, 64, 40), (64, 64), (256,), "double buffering"),
        gemm("gemm_fp64", "typed_tile<double>", (32, 48, 64), (16, 16), (16, 16), "double", "float64"),
        gemm("gemm_int", "typed_tile<int>", (32, 48, 64), (16, 16), (16, 16), "integers", "int32"),
        gemm("gemm_int16", "typed_tile<short>", (32, 48, 64), (16, 16), (16, 16), "16-bit", "int16"),
        gemm("gemm_int8", "typed_tile<signed char>", (32, 48, 64), (16, 16), (16, 16), "8-bit", "int8"),
    ]


def _loop_cases() -> list[Case]:
    pair = [Array(4096), Array(4096)]
    pair = [Array(8192), Array(4096)]
    dots = ((32, 32), (32, 33), (32, 34), (32, 36), (20, 20), (7, 8), (18, 20), (64, 68), (128, 130))
    return [
        *(
            _case(f"dot_{n}_of_{of}", "unrolled.cu", f"dot_rows<{n}, {of}>", 1, 32, pair, "loops that ptxas widens")
            for n, of in dots
        ),
        _case("stencil", "unrolled.cu", "stencil", 3, 128, [*pair, 300], "overlapping neighbours"),
        _case(
            "segments",
            "unrolled.cu",
            "segments",
            1,
            96,
            [Array(1024), Array(96, "int32", 37, 3, 900), Array(96, "int32", 11, 1, 23), Array(96)],
            "run-time trip counts",
        ),
        _case("structs_aligned", "unrolled.cu", "structs<Aligned>", 1, 96, pair, "aligned struct"),
        _case("structs_loose", "unrolled.cu", "structs<Loose>", 1, 96, pair, "struct of scalars"),
        _case("partly_dead_on", "unrolled.cu", "partly_dead", 1, 32, [*pair, 1], "dead neighbours"),
        _case("partly_dead_off", "unrolled.cu", "partly_dead", 1, 32, [*pair, 0], "dead neighbours"),
        _case("volatile_rows", "unrolled.cu", "volatile_rows", 1, 32, pair, "volatile"),
        _case("neighbour_stores", "unrolled.cu", "neighbour_stores", 1, 32, pair, "neighbouring stores"),
        _case("neighbour_globals", "unrolled.cu", "neighbour_globals", 4, 64, pair, "neighbouring global accesses"),
        _case(
            "convolution",
            "unrolled.cu",
            "convolution",
            (3, 2),
            (16, 16),
            [Array(4096), Array(9), Array(4096), 30, 41],
            "halo, ragged edges",
        ),
        _case("reduce", "control.cu", "reduce", 3, 256, [*pair, 700], "divergence"),
        _case("reduce_interleaved", "control.cu", "reduce_interleaved", 2, 256, pair, "divergence, conflicts"),
        _case("warp_reduce", "control.cu", "warp_reduce", 1, 160, [*pair, 1000], "shuffles"),
        _case("two_arms", "control.cu", "two_arms", 1, 128, [*pair, 101], "divergent branches"),
        _case("early_exit", "control.cu", "early_exit", 3, 128, [*pair, 300], "early exit"),
        _case(
            "collatz",
            "control.cu",
            "collatz",
            1,
            64,
            [Array(64, "int32", 5, 1, 1 << 20), Array(64, "int32")],
            "a trip count per thread",
        ),
        _case("scan", "control.cu", "scan", 1, 128, pair, "double buffering"),
        _case(
            "histogram",
            "control.cu",
            "histogram",
            2,
            96,
            [Array(1000, "int32", 7, 0, 61), Array(32, "int32"), 1000],
            "atomics",
        ),
        _case("softmax", "control.cu", "softmax", 3, 256, [*pair, 200], "row reduction"),
        _case("normalise", "control.cu", "normalise", 2, 128, [*pair, 200], "division and square root"),
    ]


def _mixed_cases() -> list[Case]:
    pair = [Array(4096), Array(4096)]
    integers = Array(4096, "int32", 37, 11, 1009)

    def mixed(
        name: str,
        entry: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        given: Sequence[Given],
        covers: str,
    ) -> Case:
        return _case(name, "mixed.cu", entry, grid, block, given, covers)

    return [
        mixed("divided", "divided", 4, 128, [*pair, 500, 23], "division by a run-time number"),
        mixed("divided_unsigned", "divided_unsigned", 2, 64, [*pair, 700, 29], "unsigned division"),
        _case("grid_stride", "mixed.cu", "grid_stride", 3, 96, [Array(1024, "float64")] * 2 + [1000], "64-bit indices"),
        mixed("local_array", "local_array", 1, 64, [integers, Array(64, "int32")], "local memory"),
        mixed("calls", "calls", 2, 96, pair, "calls of a device function"),
        mixed("switches_warp", "switches", 1, 64, [*pair, 3], "switch, lanes apart"),
        mixed("switches_lanes", "switches", 1, 64, [*pair, 0], "switch, every lane apart"),
        mixed(
            "matrix_view",
            "matrix_view",
            (3, 2),
            (16, 16),
            [View(Array(2048), 29, 40, 43, 1), View(Array(2048), 40, 29, 1, 41)],
            "views by value, strided",
        ),
        mixed("votes", "votes", 2, 96, pair, "votes and shuffles"),
        mixed("shuffled_index", "shuffled_index", 1, 64, [integers, *pair], "an index through shuffles"),
        mixed(
            "three_dimensions", "three_dimensions", (2, 2, 2), (8, 4, 3), [*pair, 13, 7, 5], "three-dimensional launch"
        ),
        mixed("nested", "nested", 1, 96, [integers, Array(96, "int32"), 11], "nested divergence, break, continue"),
        mixed("named_barriers", "named_barriers", 1, 128, pair, "named barriers"),
        mixed(
            "shared_atomics",
            "shared_atomics",
            1,
            96,
            [integers, Array(96, "int32"), Array(3), 500],
            "atomics",
        ),
        mixed("spilling", "spilling", 1, 1024, [Array(1024), Array(1024), 5], "spilled registers"),
    ]


def _tensor_cases() -> list[Case]:
    def tensor(
        name: str,
        entry: str,
        grid: Sequence[int],
        block: Sequence[int],
        shape: tuple[int, int, int],
        types: str,
        covers: str,
    ) -> Case:
        m, n, k = shape
        a, b, c = types.split()
        given: list[Array | View | int] = [
            Array(m * k, a, modulus=13),
            Array(k * n, b, modulus=11),
            Array(m * n, c, modulus=2),
            m,
            n,
            k,
        ]
        return _case(name, "tensor.cu", entry, grid, block, given, covers)

    floats, halves = "float32 float32 float32", "float16 float16 float32"
    return [
        tensor("async_4", "async_tile<4>", (2, 1), (256,), (64, 128, 48), floats, "cp.async, 32-bit"),
        tensor("async_8", "async_tile<8>", (2, 1), (256,), (64, 128, 48), floats, "cp.async, 64-bit"),
        tensor("async_16", "async_tile<16>", (2, 1), (256,), (64, 128, 48), floats, "cp.async, 128-bit"),
        tensor("wmma", "wmma_tile", (3, 2), (32,), (32, 48, 64), halves, "tensor cores"),
        tensor("mma", "mma_tile<false>", (3, 2), (32,), (32, 24, 128), halves, "ldmatrix"),
        tensor("mma_swizzled", "mma_tile<true>", (3, 2), (32,), (32, 24, 128), halves, "ldmatrix, swizzled"),
        tensor("half2", "half2_tile", (2, 2), (16, 16), (32, 64, 48), "float16 float16 float16", "packed halves"),
        tensor("dp4a", "dp4a_tile", (2, 3), (256,), (48, 32, 24), "int32 int32 int32", "packed bytes"),
    ]


def _matrix_cases() -> list[Case]:
    def product(form: str, kind: str, total: str) -> Case:
        given = [Array(4 * 8 * 32, kind, modulus=1 << 14), Array(4 * 4 * 32, kind, modulus=1 << 13)]
        return _case(f"mma_{form}", "matrix.cu", form, 3, 64, [*given, Array(6 * 4 * 32, total), 5], f"mma, {form}")

    def moved(name: str, layout: str, count: int, across: bool, width: int = 0, kept: bool = False) -> Case:
        entry = f"moved<{layout}, {count}, {str(across).lower()}, {width}, {str(kept).lower()}>"
        given: list[Given] = [Array(32 * 64, "float16"), Array(96, "int32"), 29]
        return _case(
            name, "matrix.cu", entry, 1, 96, given, "ldmatrix, stmatrix, movmatrix" + ", cp.async" * (width > 0)
        )

    def fragments(name: str, kinds: str, shape: str, rows: str, pad: int) -> Case:
        kind, written, across, total, sums = kinds.split()
        m, n, k = map(int, shape.split())
        ways = ", ".join(str(row == "r").lower() for row in rows)
        entry = f"fragments<{written}, {across}, {total}, {m}, {n}, {k}, {ways}, {pad}>"
        given = [Array(m * k, kind, modulus=64), Array(k * n, kind, modulus=64), Array(m * n, sums, modulus=64)]
        return _case(f"wmma_{name}", "matrix.cu", entry, 1, 32, given, "wmma")

    half, tf32 = "float16 half half float float32", "float32 float nvcuda::wmma::precision::tf32 float float32"
    short, byte = "float16 half half half float16", "int8 s8 s8 int int32"
    brain, double = "uint16 __nv_bfloat16 __nv_bfloat16 float float32", "float64 double double double float64"
    forms = {
        "f16_k8 f16_k16 bf16_k8 bf16_k16 tf32_k4 tf32_k8 e4m3_k32": ("int32", "float32"),
        "half_k8 half_k16 s8_k16 u8_k32": ("int32", "int32"),
        "f64_m8k4 f64_k4 f64_k8 f64_k16": ("float64", "float64"),
    }
    return [
        *(product(form, *kinds) for names, kinds in forms.items() for form in names.split()),
        *(
            moved(f"moved_{layout.lower()}_x{count}{'_trans' * across}", layout, count, across)
            for layout, count, across in (
                ("SIDE_BY_SIDE", 4, False), ("SIDE_BY_SIDE", 1, True), ("PADDED", 4, True), ("PADDED", 2, False),
                ("SWIZZLED", 4, False), ("SWIZZLED", 2, True), ("SWIZZLED", 1, False),
            )
        ),
        *(
            moved(f"copied_{layout.lower()}_{width}{'_kept' * kept}", layout, 4, False, width, kept)
            for layout in ("SIDE_BY_SIDE", "PADDED", "SWIZZLED")
            for width, kept in ((4, False), (8, False), (16, False), (16, True))
        ),
        fragments("half", half, "16 16 16", "rr", 8),
        fragments("half_columns", half, "16 16 16", "cc", 0),
        fragments("half_tall", short, "32 8 16", "rc", 8),
        fragments("half_global", short, "8 32 16", "cr", -1),
        fragments("bf16", brain, "16 16 16", "rc", 8),
        fragments("bf16_global", brain, "16 16 16", "cr", -1),
        fragments("tf32", tf32, "16 16 8", "rr", 4),
        fragments("tf32_columns", tf32, "16 16 8", "cc", 0),
        fragments("s8", byte, "16 16 16", "rc", 16),
        fragments("s8_rows", byte, "32 8 16", "rr", 0),
        fragments("f64", double, "8 8 4", "rr", 2),
        fragments("f64_columns", double, "8 8 4", "cc", 0),
    ]  # fmt: skip


def _product_cases() -> list[Case]:
    """The kernels of the estimate's table, each on a few tiles."""
    found = []
    for case in CASES:
        (rows, cols, depth), (factor, total) = case.tile, case.kinds
        m, n, k = rows, 2 * cols, 4 * depth * case.split
        if "RAGGED" in case.defines:
            m, n, k = m - 5, n - 7, k - 3
        words = k // int(case.defines.get("PACKED", 1))
        arrays = [Array(m * words, factor, modulus=64), Array(words * n, factor, modulus=64)]
        given: tuple[Given, ...] = (*arrays, Array(m * n * case.split, total, modulus=2), m, n, k)
        found.append(
            Case(
                "product_" + re.sub(r"\W+", "_", case.name),
                case.path,
                "gemm",
                case.grid(m, n),
                (case.threads, 1, 1),
                given,
                "products: tensor cores, fp64, packed bytes, splits",
                case.shared,
                case.defines,
                (case.path.parent,),
            )
        )
    return found


def _lesson_cases() -> list[Case]:
    """Every launch of every solution, and of those of its types that have tensor maps."""
    found = []
    course = Course(ROOT)
    solved = [lesson for lesson in map(course.lesson, course.names) if lesson.solution_path.exists()]
    typed = (load_lesson(lesson.directory, type_) for lesson in solved for type_ in lesson.types)
    for lesson in (*solved, *(it for it in typed if it.data.maps)):
        shape = lesson.shapes.count
        for number, (launch, grid) in enumerate(zip(lesson.launches, lesson.grids(shape), strict=True)):
            found.append(
                Case(
                    "_".join(["lesson", lesson.name[3:], *filter(None, [lesson.type])]) + f"_{number}" * (number > 0),
                    lesson.solution_path,
                    launch.entry,
                    grid.grid,
                    grid.block,
                    Problem(lesson.data, shape, seed=1),
                    "course solution",
                    grid.dynamic_shared,
                    lesson.tile.defines,
                    lesson.include_dirs,
                    launch.parameters,
                    course.architecture_of(lesson),
                )
            )
    return found


def plan() -> tuple[Case, ...]:
    """Everything that is launched and compared, in launch order."""
    return tuple(
        _global_cases()
        + _shared_cases()
        + _gemm_cases()
        + _loop_cases()
        + _mixed_cases()
        + _tensor_cases()
        + _matrix_cases()
        + _product_cases()
        + _lesson_cases()
    )
