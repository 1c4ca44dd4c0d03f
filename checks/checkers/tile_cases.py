"""Layouts of ``wgmma`` operands, right and wrong, as tables: boxes that TMA copies, and descriptors that multiply them.

``KERNEL`` copies boxes of three tensor maps to shared memory and multiplies tiles of it as its tables state, so that a
case is data: a layout, right or wrong, and the product that a right layout gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gemm_lessons.engine.api import CompiledKernel, compile
from gemm_lessons.engine.records.launch import TensorMap

Array = np.ndarray[Any, Any]

ROWS, COLS, K = 64, 64, 64  # of a product, and of all its steps
SHARED = 64 << 10  # bytes
SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}  # bytes -> bits of a descriptor

KERNEL = (Path(__file__).parent / "sources" / "tiles.cu").read_text()
COPY_BOX = """
__device__ inline void copy_box(const Map *map, unsigned to, unsigned bar, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes [%%0], [%%1, %s], [%%2];"
                 ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z) : "memory");
}
"""


@dataclass(frozen=True)
class Case:
    """``maps``: array, box, swizzle of each. ``copies``: map, first byte, coordinates. ``products``: descriptors of A
    and B. ``right``: what C should be, from A (64, 64) and B (64, 64), k in the columns of both. ``transposed``: A,
    B."""

    maps: Callable[[Array, Array], Sequence[tuple[Array, tuple[int, ...], int]]]
    copies: Sequence[tuple[int, ...]]
    products: Sequence[tuple[int, int]]
    right: Callable[[Array, Array], Array] = field(default=lambda a, b: a @ b.T)
    transposed: tuple[bool, bool] = (False, False)


def descriptor(start: int, leading: int, stride: int, swizzle: int = 128) -> int:
    """Return a descriptor; all in bytes."""
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | SWIZZLES[swizzle] << 62


def source(dims: int, transposed: tuple[bool, bool]) -> str:
    """Return the kernel for maps of ``dims`` dimensions."""
    struct, rest = KERNEL.split("\n\nextern", 1)
    listed = ", ".join(f"%{i}" for i in range(32))
    ta, tb = map(int, transposed)
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(32))
    multiply = f"""
__device__ inline void multiply(float (&d)[32], unsigned long long a, unsigned long long b)
{{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{listed}}}, %32, %33, 1, 1, 1, {ta}, {tb};"
                 : {sums} : "l"(a), "l"(b));
}}
"""
    copy = COPY_BOX % (dims, "{%3, %4, %5}" if dims == 3 else "{%3, %4}")
    return f"{struct}\n{copy}{multiply}\nextern{rest}"


@cache
def compiled(dims: int, transposed: tuple[bool, bool]) -> CompiledKernel:
    """Return the compiled kernel."""
    return compile(source(dims, transposed), "tiles", arch="sm_90a")


@dataclass(frozen=True)
class Launch:
    """A case with its arrays: ``args`` are new for each launch."""

    case: Case
    a: Array
    b: Array

    @classmethod
    def of(cls, case: Case) -> Launch:
        """Draw the numbers of a case: small integers, of which every sum is exact."""
        random = np.random.default_rng(7)
        return cls(case, *(random.integers(-8, 9, (64, 64)).astype(np.float32) for _ in "ab"))

    def args(self) -> tuple[Array, list[Any]]:
        """Return C and all arguments."""
        stored = [_bf16(it) for it in (self.a, self.b)]
        maps = [TensorMap(array, box, swizzle, "bfloat16") for array, box, swizzle in self.case.maps(*stored)]
        sizes = [int(np.prod(it.box)) * 2 for it in maps]
        copies = [(number, to, sizes[number], *(*at, 0, 0)[:3]) for number, to, *at in self.case.copies]
        c = np.zeros((ROWS, COLS), np.float32)
        third = maps[2] if len(maps) > 2 else maps[1]
        products = np.array(self.case.products, np.uint64)
        return c, [*maps[:2], third, np.array(copies, np.int32), len(copies), products, len(products), c]

    def kernel(self) -> CompiledKernel:
        """Return the kernel for this case."""
        _, box, _ = self.case.maps(self.a, self.b)[0]
        return compiled(len(box), self.case.transposed)


def _bf16(values: Array) -> Array:
    return np.ascontiguousarray((values.view(np.uint32) >> 16).astype(np.uint16))


# -- layouts ----------------------------------------------------------------------------------------------------------

TILE = 64 * 128  # bytes: 64 rows of 64 numbers
A, B = 0, 16 << 10  # where tiles begin


def plain(swizzle: int = 128) -> Callable[[Array, Array], Sequence[tuple[Array, tuple[int, ...], int]]]:
    """Return maps whose boxes have rows as long as the swizzle."""
    return lambda a, b: [(it, (64, swizzle // 2), swizzle) for it in (a, b)]


def steps(a: Callable[[int], int], b: Callable[[int], int], order: Sequence[int] = range(4)) -> list[tuple[int, int]]:
    """Return the descriptors of four steps of 16 k."""
    return [(a(step), b(step)) for step in order]


def swizzled(start: int, swizzle: int = 128, stride: int = 0, leading: int = 0, step: int = 32) -> Callable[[int], int]:
    """Return descriptors of steps in boxes with k side by side; a box holds as much k as the swizzle is wide."""
    of_box = swizzle // 32  # steps

    def of(number: int) -> int:
        at = start + number // of_box * 64 * swizzle + number % of_box * step
        return descriptor(at, leading, stride or 8 * swizzle, swizzle)

    return of


def boxes(swizzle: int = 128) -> list[tuple[int, ...]]:
    """Return the copies of all boxes of A and of B."""
    columns = swizzle // 2
    return [
        (it, start + x // columns * 64 * swizzle, x, 0) for it, start in ((0, A), (1, B)) for x in range(0, 64, columns)
    ]


def cores(a: Array, b: Array) -> Sequence[tuple[Array, tuple[int, ...], int]]:
    """Return maps of 8 columns each: without a swizzle, rows of 16 bytes follow each other."""
    return [(np.lib.stride_tricks.as_strided(it, (8, 64, 8), (16, 128, 2)), (8, 64, 8), 0) for it in (a, b)]


def unswizzled(start: int, leading: int = 1024, stride: int = 128, step: int = 2048) -> Callable[[int], int]:
    """Return descriptors of steps in ``cores``."""
    return lambda number: descriptor(start + number * step, leading, stride, 0)


def turned(a: Array, b: Array) -> Sequence[tuple[Array, tuple[int, ...], int]]:
    """Return maps of the transposed arrays: k in the rows."""
    return [(np.ascontiguousarray(it.T), (64, 64), 128) for it in (a, b)]


def rows_of_k(start: int, leading: int = 0, stride: int = 1024, step: int = 2048) -> Callable[[int], int]:
    """Return descriptors of steps in ``turned``."""
    return lambda number: descriptor(start + number * step, leading, stride)


def narrow(a: Array, b: Array) -> Sequence[tuple[Array, tuple[int, ...], int]]:
    """Return maps of the transposed arrays in boxes of 32 columns."""
    return [(np.ascontiguousarray(it.T), (64, 32), 64) for it in (a, b)]


def wide(a: Array, b: Array) -> Sequence[tuple[Array, tuple[int, ...], int]]:
    """Return the maps of A, and of a wider array whose last columns are B."""
    return [(a, (64, 64), 128), (np.ascontiguousarray(np.hstack((a, b))), (64, 64), 128)]


def halves(a: Array, b: Array) -> Sequence[tuple[Array, tuple[int, ...], int]]:
    """Return the map of A, and maps of both halves of B."""
    return [(a, (64, 64), 128), *((np.ascontiguousarray(it), (32, 64), 128) for it in (b[:32], b[32:]))]


def stored_swizzled(a: Array, b: Array) -> Sequence[tuple[Array, tuple[int, ...], int]]:
    """Return maps without a swizzle of arrays that the host has swizzled."""
    order = np.arange(8) ^ np.arange(64)[:, None] % 8
    return [
        (np.ascontiguousarray(it.reshape(64, 8, 8)[np.arange(64)[:, None], order].reshape(64, 64)), (64, 64), 0)
        for it in (a, b)
    ]


WHOLE = [(0, A, 0, 0), (1, B, 0, 0)]
CORES = [(0, A, 0, 0, 0), (1, B, 0, 0, 0)]
NARROW = [(it, start + x // 32 * 4096, x, 0) for it, start in ((0, A), (1, B)) for x in (0, 32)]
SHUFFLED = np.array([2, 0, 7, 5, 1, 3, 6, 4])  # groups of 8 rows
PAIRS = (0, 1, 4, 5)  # pieces of 8 k whose partner is two further

RIGHT = {
    "a swizzle of 128 bytes": Case(plain(), WHOLE, steps(swizzled(A), swizzled(B))),
    "a swizzle of 64 bytes": Case(plain(64), boxes(64), steps(swizzled(A, 64), swizzled(B, 64))),
    "a swizzle of 32 bytes": Case(plain(32), boxes(32), steps(swizzled(A, 32), swizzled(B, 32))),
    "no swizzle": Case(cores, CORES, steps(unswizzled(A), unswizzled(B))),
    "steps of k backwards": Case(plain(), WHOLE, steps(swizzled(A), swizzled(B), (3, 1, 2, 0))),
    "k permuted inside of products": Case(
        cores,
        CORES,
        [(descriptor(A + it * 1024, 2048, 128, 0), descriptor(B + it * 1024, 2048, 128, 0)) for it in PAIRS],
    ),
    "rows permuted": Case(
        lambda a, b: [(a, (8, 64), 128), (b, (64, 64), 128)],
        [*((0, A + it * 1024, 0, int(group) * 8) for it, group in enumerate(SHUFFLED)), (1, B, 0, 0)],
        steps(swizzled(A), swizzled(B)),
        lambda a, b: a.reshape(8, 8, 64)[SHUFFLED].reshape(64, 64) @ b.T,
    ),
    "eight rows repeated": Case(
        lambda a, b: [(a, (8, 64), 128), (b, (64, 64), 128)],
        WHOLE,
        [(descriptor(A + it * 32, 0, 0), swizzled(B)(it)) for it in range(4)],
        lambda a, b: np.tile(a[:8], (8, 1)) @ b.T,
    ),
    "one array twice": Case(
        lambda a, b: [(a, (64, 64), 128)] * 2, [(0, A, 0, 0)], steps(swizzled(A), swizzled(A)), lambda a, b: a @ a.T
    ),
    "both transposed": Case(turned, WHOLE, steps(rows_of_k(A), rows_of_k(B)), transposed=(True, True)),
    "both transposed in strips": Case(
        narrow,
        NARROW,
        [(descriptor(A + it * 1024, 4096, 512, 64), descriptor(B + it * 1024, 4096, 512, 64)) for it in range(4)],
        transposed=(True, True),
    ),
    "k elsewhere in a wider array": Case(wide, [(0, A, 0, 0), (1, B, 64, 0)], steps(swizzled(A), swizzled(B))),
    "columns from two arrays": Case(
        halves, [(0, A, 0, 0), (1, B, 0, 0), (2, B + 4096, 0, 0)], steps(swizzled(A), swizzled(B))
    ),
}
# Right, but the checker cannot see it: the host has swizzled the arrays.
STRANGE = {"swizzled by the host": Case(stored_swizzled, WHOLE, steps(swizzled(A), swizzled(B)))}
# Name -> the case, the finding's case, and words of its sentence.
WRONG: dict[str, tuple[Case, str, tuple[str, ...]]] = {
    "no swizzle in the copy": (
        Case(lambda a, b: [(it, (64, 64), 0) for it in (a, b)], WHOLE, steps(swizzled(A), swizzled(B))),
        "mixed",
        (
            "puts row 1, columns 8 to 15 of",
            "at byte 144 of its box",
            "for row 1, columns 0 to 7",
            "the tensor map has none",
        ),
    ),
    "no swizzle in the descriptor": (
        Case(plain(), WHOLE, steps(unswizzled(A), unswizzled(B))),
        "mixed",
        ("swizzles by 128 bytes, the descriptor says no swizzle",),
    ),
    "another swizzle": (
        Case(plain(), WHOLE, steps(swizzled(A), swizzled(B, 64))),
        "mixed",
        ("descriptor of B", "the copy swizzles by 128 bytes, the descriptor says 64"),
    ),
    "a stride of four rows": (
        Case(plain(), WHOLE, steps(swizzled(A, stride=512), swizzled(B))),
        "twice",
        ("puts row 4, columns 0 to 7", "for row 8", "stride is 512 bytes, where 1,024 fit"),
    ),
    "a stride of sixteen rows": (
        Case(plain(), WHOLE, steps(swizzled(A), swizzled(B, stride=2048))),
        "empty",
        ("descriptor of B", "no copy has put anything there", "stride is 2,048 bytes, where 1,024 fit"),
    ),
    "steps too short": (
        Case(plain(), WHOLE, steps(swizzled(A, step=16), swizzled(B, step=16))),
        "again",
        ("columns 8 to 23", "16 bytes further"),
    ),
    "steps of B too long": (
        Case(plain(), WHOLE, steps(swizzled(A), swizzled(B, step=64))),
        "apart later",
        ("columns 16 to 31", "columns 32 to 47", "B's 64"),
    ),
    "a start between two steps": (
        Case(plain(), WHOLE, steps(swizzled(A), swizzled(B + 16))),
        "apart",
        ("columns 0 to 15", "columns 8 to 23"),
    ),
    "a start between two groups of rows": (
        Case(plain(), [*WHOLE, (1, A + TILE, 0, 0)], steps(swizzled(A + 512), swizzled(B))),
        "other",
        ("puts row 0, columns 0 to 7 of", "for row 64", "where 0 fits"),
    ),
    "other distances without a swizzle": (
        Case(cores, CORES, steps(unswizzled(A, 128, 1024), unswizzled(B))),
        "mixed",
        ("stride is 1,024 bytes, where 128 fit", "leading offset is 128 bytes, where 1,024 fit"),
    ),
    "a leading offset of one strip": (
        Case(
            narrow,
            NARROW,
            [(descriptor(A + it * 1024, 4096, 512, 64), descriptor(B + it * 1024, 2048, 512, 64)) for it in range(4)],
            transposed=(True, True),
        ),
        "mixed",
        ("descriptor of B", "leading offset is 2,048 bytes, where 4,096 fit"),
    ),
    "a stride of k": (
        Case(turned, WHOLE, steps(rows_of_k(A), rows_of_k(B, stride=2048)), transposed=(True, True)),
        "mixed",
        ("descriptor of B", "stride is 2,048 bytes, where 1,024 fit"),
    ),
}
