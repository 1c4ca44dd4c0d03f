"""``cp.async.bulk.tensor``: boxes with edges, swizzles and views, loaded and stored; and what a tensor map may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.simulator.conftest import Run
from checks.simulator.phase_cases import BOX, HEAD, TENSOR
from gemm_lessons.engine.records.launch import TensorMap
from gemm_lessons.engine.records.results import Launched

ARCH = "sm_90"

ROWS, COLUMNS = 8, 32  # of the box
BOXES = [(0, 0), (32, 8), (4, 5), (-8, -3), (40, 18), (100, 2), (-28, 19)]


def boxed(a: np.ndarray[Any, Any], x: int, y: int) -> np.ndarray[Any, Any]:
    """A box with zeros where there is nothing."""
    wide = np.zeros((a.shape[0] + 200, a.shape[1] + 300), a.dtype)
    wide[100 : 100 + a.shape[0], 150 : 150 + a.shape[1]] = a
    return wide[100 + y : 100 + y + ROWS, 150 + x : 150 + x + COLUMNS]


def moved(
    run: Run, source: str = BOX, swizzle: int = 0, at: tuple[int, int, int, int] = (0, 0, 0, 0), **how: Any
) -> Any:
    a = np.arange(1, 21 * 64 + 1, dtype=np.float32).reshape(21, 64)[:, :60]
    out, raw = np.full((20, 64), -1, np.float32), np.zeros(256, np.float32)
    box = (ROWS, COLUMNS)
    args = [TensorMap(a, box, swizzle), TensorMap(out, box, swizzle), raw, *at]
    launched = run(source, 1, 32, args, dynamic_shared=2048, **how)
    return launched, a, raw.reshape(ROWS, COLUMNS), out


@pytest.mark.parametrize(("x", "y"), BOXES)
def test_boxes_at_edges(run: Run, x: int, y: int) -> None:
    row, column = max(x, 0), max(4 * y, 0)
    launched, a, raw, out = moved(run, at=(x, y, column, row))
    assert np.array_equal(raw, boxed(a, x, y))
    expected = np.full((220, 364), -1, np.float32)
    expected[100 + row : 100 + row + ROWS, 150 + column : 150 + column + COLUMNS] = raw
    assert np.array_equal(out, expected[100:120, 150:214])
    assert not [f for f in launched.findings if f.severity != "note"]


def test_swizzle(run: Run) -> None:
    """Of row r, piece p of 16 bytes lies where p ^ (r % 8) would; stored by the same swizzle it is back in place."""
    _, a, raw, out = moved(run, swizzle=128, at=(4, 2, 0, 0))
    pieces = boxed(a, 4, 2).reshape(ROWS, 8, 4)
    rows = np.arange(ROWS)[:, None]
    assert np.array_equal(raw.reshape(ROWS, 8, 4)[rows, np.arange(8) ^ rows], pieces)
    assert np.array_equal(out[:ROWS, :COLUMNS], boxed(a, 4, 2))


@pytest.mark.parametrize("swizzle", [32, 64])
def test_narrow_swizzles(run: Run, swizzle: int) -> None:
    """Rows of 32 and 64 bytes: bits 7 and 8 of the address exchange pieces."""
    columns = swizzle // 4
    rows = 256 // columns
    a = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    out, raw = np.zeros_like(a), np.zeros(256, np.float32)
    maps = [TensorMap(m, a.shape, swizzle) for m in (a, out)]
    run(BOX, 1, 32, [*maps, raw, 0, 0, 0, 0], dynamic_shared=2048)
    address = np.arange(0, 1024, 16)
    there = address ^ ((address >> 7 & (swizzle // 16 - 1)) << 4)
    assert np.array_equal(raw.reshape(-1, 4)[there // 16], a.reshape(-1, 4))
    assert np.array_equal(out, a)


@pytest.mark.parametrize(
    ("old", "new", "kind", "says"),
    [
        ("box_load(tile,", "box_load(tile + 4,", "misaligned", "a multiple of 128"),
        ("expect(&bar, 1024)", "expect(&bar, 512)", "deadlock", "expect_tx for 512 bytes"),
        ("&out, x2, y2", "&out, x2 + 1, y2", "misaligned", "places the box 4 bytes into a row of"),
        ("&in, x, y", "&in, x + 3, y", "misaligned", "places the box 12 bytes into a row of"),
        ("&out, x2, y2", "&out, x2 - 4, y2", "illegal_access", "at (-4, 0), but a stored box must not start before"),
        ("&out, x2, y2", "&out, x2, y2 - 1", "illegal_access", "at (0, -1), but a stored box must not start before"),
        ("&in, x, y, &bar", "(const Map *)raw, x, y, &bar", "illegal_access", "the address does not hold a tensor map"),
    ],
)
def test_faults(run: Run, old: str, new: str, kind: str, says: str) -> None:
    assert old in BOX
    launched, *_ = moved(run, BOX.replace(old, new), fault=kind)
    assert says in launched.fault.message


@pytest.mark.parametrize(
    ("old", "new", "kind"), [("wait(&bar, 0);", "", "async_in_flight"), (" drain();", "", "async_unfinished")]
)
def test_findings(run: Run, old: str, new: str, kind: str) -> None:
    launched: Launched = moved(run, BOX.replace(old, new))[0]
    assert kind in {finding.kind for finding in launched.findings}


def test_one_three_and_four_dimensions(run: Run) -> None:
    for dims, shape, box, corner in (
        (1, (70,), (64,), (8,)),
        (3, (5, 7, 16), (2, 3, 8), (4, -1, 4)),
        (4, (1, 1, 7, 16), (1, 1, 3, 8), (4, -1, 0, 0)),
    ):
        a = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        a = a[0, 0][None, None] if dims == 4 else a  # axes that NumPy adds have a stride of 0
        size = int(np.prod(box))
        out = np.zeros(size, np.int32)
        coordinates = ", ".join(f"%{n + 2}" for n in range(dims))
        given = ", ".join(f'"r"({c})' for c in corner)
        source = BOX.split("extern")[0] + f"""
extern "C" __global__ void k(const __grid_constant__ Map in, int *out)
{{
    __shared__ __align__(128) int tile[{size}];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {{
        init(&bar, 1); made(); expect(&bar, {4 * size});
        asm volatile("cp.async.bulk.tensor.{dims}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0],"
                     " [%1, {{{coordinates}}}], [%{dims + 2}];"
                     :: "r"(AT(tile)), "l"(&in), {given}, "r"(AT(&bar)) : "memory");
    }}
    __syncthreads();
    wait(&bar, 0);
    for (int e = threadIdx.x; e < {size}; e += 32) out[e] = tile[e];
}}"""  # fmt: skip
        run(source, 1, 32, [TensorMap(a, box), out])
        wide = np.pad(a, 10)
        place = tuple(slice(10 + c, 10 + c + b) for c, b in zip(reversed(corner), box, strict=True))
        assert np.array_equal(out, wide[place].reshape(-1)), dims


@pytest.mark.parametrize(
    ("array", "box", "swizzle", "says"),
    [
        (np.zeros((8, 6), np.float32), (8, 4), 0, "rows must begin at multiples of 16 bytes"),
        (np.zeros((8, 8), np.float32), (8, 3), 0, "multiple of 16 bytes, not 12"),
        (np.zeros((8, 512), np.float32), (1, 260), 0, "1 to 256"),
        (np.zeros((8, 64), np.float32), (8, 64), 128, "no longer"),
        (np.zeros((8, 64), np.float32), (8, 16), 128, "shorter than the swizzle is not supported"),
        (np.zeros((8, 64), np.float32), (8,), 0, "a size of the box for each"),
        (np.broadcast_to(np.zeros((8, 64), np.float32), (2, 8, 64)), (1, 8, 8), 0, "16 bytes, not 0 apart"),
        (np.zeros((8, 64), np.float32).T, (8, 8), 0, "must follow each other"),
        (np.zeros((8, 64), np.complex64), (8, 8), 0, "complex64 is not supported"),
    ],
)
def test_maps_that_no_driver_makes(run: Run, array: Any, box: tuple[int, ...], swizzle: int, says: str) -> None:
    raw, out = np.zeros(256, np.float32), np.zeros((20, 64), np.float32)
    with pytest.raises(ValueError, match=says):
        run(BOX, 1, 32, [TensorMap(array, box, swizzle), TensorMap(out, (8, 32)), raw, 0, 0, 0, 0], dynamic_shared=2048)


def test_bytes_of_a_stored_box_outside_the_array_may_be_unwritten(run: Run) -> None:
    """Rows of 40 floats in shared memory, of an array of 32: the padding is never written."""
    source = (
        HEAD
        + TENSOR
        + """
extern "C" __global__ void k(const __grid_constant__ Map out)
{
    __shared__ __align__(128) float tile[8][40];
    for (int r = 0; r < 8; ++r) tile[r][threadIdx.x] = 100 * r + threadIdx.x;
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) { box_store(&out, 0, 0, tile); commit(); drain(); }
}
"""
    )
    y = np.zeros((8, 32), np.float32)
    launched = run(source, 1, 32, [TensorMap(y, (8, 40))])
    assert np.array_equal(y, 100 * np.arange(8)[:, None] + np.arange(32))
    assert not launched.findings, launched.findings


@pytest.mark.parametrize(("row", "races"), [(0, 1), (7, 1), (8, 0)])
@pytest.mark.parametrize("reader", [0, 1])
def test_a_box_that_another_block_stores(run: Run, reader: int, row: int, races: int) -> None:
    """One block copies rows 0 to 7; the other stores a box from ``row`` on."""
    source = (
        HEAD
        + TENSOR
        + """
extern "C" __global__ void k(const __grid_constant__ Map both, int reader, int row)
{
    __shared__ __align__(128) float tile[8][32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); made(); }
    __syncthreads();
    if (blockIdx.x == reader) {
        if (threadIdx.x == 0) { expect(&bar, 1024); box_load(tile, &both, 0, 0, &bar); }
        wait(&bar, 0);
    } else {
        for (int r = 0; r < 8; ++r) tile[r][threadIdx.x] = 1;
        fence_async();
        __syncthreads();
        if (threadIdx.x == 0) { box_store(&both, 0, row, tile); commit(); drain(); }
    }
}
"""
    )
    launched = run(source, 2, 32, [TensorMap(np.zeros((16, 32), np.float32), (8, 32)), reader, row])
    assert [it.kind for it in launched.findings] == ["block_order"] * races
