"""Tensor maps that a kernel builds or changes (``tensormap``), that are fields of a struct, or that are found by a
32-bit address of a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.simulator.phase_cases import HEAD, TENSOR
from gemm_lessons.engine import TensorMap, simulate

ARCH = "sm_90a"
ROWS, COLS = 16, 32
REPLACE = """
#define SET(field, type, letter, value) asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type \\
    " [%0], %1;" :: "r"(AT(map)), letter(value) : "memory")
#define SET_AT(field, n, type, letter, value) asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type \\
    " [%0], " #n ", %1;" :: "r"(AT(map)), letter(value) : "memory")
"""
# A block builds a map of x (rows, 32), in zeroed shared memory, copies it out and loads a box of 8 x 32 by it.
BUILD = (
    HEAD
    + TENSOR
    + REPLACE
    + """
extern "C" __global__ void k(const float *x, float *y, unsigned char *room, int rows, int row)
{
    __shared__ __align__(128) unsigned map[32];
    __shared__ __align__(1024) float box[8 * 32];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    map[t] = 0;
    if (t == 0) { init(&bar, 1); made(); }
    __syncwarp();
    if (t == 0) {
        SET("global_address", "b64", "l", x);
        SET("rank", "b32", "n", 1);
        SET_AT("box_dim", 0, "b32", "r", 32);
        SET_AT("box_dim", 1, "b32", "r", 8);
        SET_AT("global_dim", 0, "b32", "r", 32);
        SET_AT("global_dim", 1, "b32", "r", rows);
        SET_AT("global_stride", 0, "b64", "l", 128ull);
        SET_AT("element_stride", 0, "b32", "r", 1);
        SET_AT("element_stride", 1, "b32", "r", 1);
        SET("elemtype", "b32", "n", 7);
        SET("interleave_layout", "b32", "n", 0);
        SET("swizzle_mode", "b32", "n", 3);
        SET("fill_mode", "b32", "n", 0);
    }
    __syncwarp();
    unsigned char *mine = room + 128 * blockIdx.x;
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
                 " [%0], [%1], 128;" :: "l"(mine), "r"(AT(map)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(mine) : "memory");
    if (t == 0) {
        expect(&bar, 1024);
        box_load(box, (const Map *)mine, 0, row, &bar);
    }
    wait(&bar, 0);
    for (int i = t; i < 256; i += 32)
        y[256 * blockIdx.x + i] = box[i ^ (i / 32 % 8) * 4]; // pieces of 4 floats are exchanged
}
"""
)


def built(old: str = "", new: str = "", rows: int = ROWS, row: int = 4) -> tuple[Any, Any, Any]:
    x = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)
    y, room = np.zeros((2, 8, COLS), np.float32), np.zeros(256, np.uint8)
    assert old in BUILD
    found = simulate(BUILD.replace(old, new), "k", 2, 32, [x, y, room, np.int32(rows), np.int32(row)], arch=ARCH)
    return found, x, y


@pytest.mark.counted
def test_a_map_built_from_nothing() -> None:
    found, x, y = built()
    assert found.fault is None, found.fault
    assert not found.findings
    assert np.array_equal(y, np.broadcast_to(x[4:12], y.shape))


def test_a_smaller_array_is_filled_with_zeros() -> None:
    _, x, y = built(rows=6)
    assert np.array_equal(y[0], np.pad(x[4:6], ((0, 6), (0, 0))))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("map[t] = 0;", "map[t] = 7;", "tensormap.replace.tile.global_address"),
        ('SET("rank", "b32", "n", 1);', "", "has 1 dimensions, not 2"),
        ('"global_stride", 0, "b64", "l", 128ull', '"global_stride", 0, "b64", "l", 120ull', "does not hold"),
        ('"box_dim", 0, "b32", "r", 32', '"box_dim", 0, "b32", "r", 64', "does not hold a tensor map"),  # swizzled
        ('"element_stride", 0, "b32", "r", 1', '"element_stride", 0, "b32", "r", 300', "300 does not"),
        ("rows);\n", "2 * rows);\n", "describes 4,096 bytes, but only 2,048 bytes of memory follow its address"),
    ],
)  # fmt: skip
def test_a_map_that_is_wrong(old: str, new: str, words: str) -> None:
    found, _, _ = built(old, new)
    assert words in found.fault.message


# A map of the host that the kernel changes: another array, fewer rows, and rows that are twice as far apart.
CHANGED = (
    HEAD
    + TENSOR
    + REPLACE
    + """
extern "C" __global__ void k(const __grid_constant__ Map given, const float *other, float *y, unsigned char *room)
{
    __shared__ __align__(128) unsigned map[32];
    __shared__ __align__(1024) float box[8 * 32];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    map[t] = reinterpret_cast<const unsigned *>(&given)[t];
    if (t == 0) { init(&bar, 1); made(); }
    __syncwarp();
    if (t == 0) {
        SET("global_address", "b64", "l", other);
        SET_AT("global_dim", 1, "b32", "r", 7);
        SET_AT("global_stride", 0, "b64", "l", 256ull);
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
                 " [%0], [%1], 128;" :: "l"(room), "r"(AT(map)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(room) : "memory");
    if (t == 0) {
        expect(&bar, 1024);
        box_load(box, (const Map *)room, 0, 2, &bar);
    }
    wait(&bar, 0);
    for (int i = t; i < 256; i += 32)
        y[i] = box[i];
}
"""
)


def changed_arguments() -> list[Any]:
    a, other = (np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS) + 1000 * i for i in range(2))
    return [TensorMap(a, (8, COLS)), other, np.zeros((8, COLS), np.float32), np.zeros(128, np.uint8)]


@pytest.mark.counted
def test_a_map_of_the_host_changed() -> None:
    given = changed_arguments()
    found = simulate(CHANGED, "k", 1, 32, given, arch=ARCH)
    assert found.fault is None, found.fault
    assert not found.findings
    _, other, y, _ = given
    assert np.array_equal(y, np.pad(other[::2][2:7], ((0, 3), (0, 0))))


# Maps in a struct by value: which one, is known at run time only. A map of the host, moved to another array.
IN_STRUCT = (
    HEAD
    + TENSOR
    + REPLACE
    + """
struct Side { const float *data; Map map; };
struct Both { int which; Side side[2]; };
extern "C" __global__ void k(const __grid_constant__ Both both, float *y, unsigned char *room, const float *moved)
{
    __shared__ __align__(128) unsigned map[32];
    __shared__ __align__(1024) float box[8 * 32];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    const Map *from = &both.side[both.which].map;
    if (t == 0) { init(&bar, 1); made(); }
    if (moved) {
        map[t] = reinterpret_cast<const unsigned *>(from)[t];
        __syncwarp();
        if (t == 0)
            SET("global_address", "b64", "l", moved);
        __syncwarp();
        asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
                     " [%0], [%1], 128;" :: "l"(room), "r"(AT(map)) : "memory");
        from = reinterpret_cast<const Map *>(room);
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(room) : "memory");
    }
    __syncwarp();
    if (t == 0) {
        expect(&bar, 1024);
        box_load(box, from, 0, 8, &bar);
    }
    wait(&bar, 0);
    for (int i = t; i < 256; i += 32)
        y[i] = box[i] + both.side[0].data[0];
}
"""
)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("moves", [False, True])
def test_maps_in_a_struct(which: int, moves: bool) -> None:
    a, b, c = (np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS) + 1000 * i for i in (1, 2, 3))
    y, room = np.zeros((8, COLS), np.float32), np.zeros(128, np.uint8)
    sides = [{"data": it, "map": TensorMap(it, (8, COLS))} for it in (a, b)]
    found = simulate(IN_STRUCT, "k", 1, 32, [{"which": which, "side": sides}, y, room, c if moves else None], arch=ARCH)
    assert found.fault is None, found.fault
    assert not [it for it in found.findings if it.severity != "note"]
    assert np.array_equal(y, (c if moves else (a, b)[which])[8:] + a[0, 0])


def test_a_map_for_another_field() -> None:
    x = np.zeros((ROWS, COLS), np.float32)
    with pytest.raises(ValueError, match="for int, which has no fields; it has no room for one"):
        simulate(IN_STRUCT, "k", 1, 32, [{"which": TensorMap(x, (8, COLS))}, x, x, None], arch=ARCH)


PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 k_param_0[128], .param .u64 k_param_1)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    MOVE
    ld.param.u64 %rd3, [k_param_1];
    cvta.to.global.u64 %rd4, %rd3;
    ld.b32 %r3, [%rd2+4];
    st.global.b32 [%rd4], %r3;
    ret;
}
"""


@pytest.mark.parametrize(
    "move",
    [
        "mov.b32 %r1, k_param_0; cvt.u64.u32 %rd1, %r1; cvta.param.u64 %rd2, %rd1;",  # as Triton writes it
        "mov.b64 %rd1, k_param_0; cvta.param.u64 %rd2, %rd1;",
    ],
)
def test_the_address_of_a_parameter_fits_32_bits(move: str) -> None:
    y = np.zeros(1, np.int32)
    given = np.arange(32, dtype=np.int32).tobytes()
    found = simulate(PTX.replace("MOVE", move), "k", 1, 1, [given, y], arch=ARCH)
    assert found.fault is None, found.fault
    assert y[0] == 1


PUBLISH = """    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
                 " [%0], [%1], 128;" :: "l"(room), "r"(AT(map)) : "memory");
"""
ACQUIRE = 'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(room) : "memory");'
RELEASE = 'asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");'
BY_STORES = "    reinterpret_cast<unsigned *>(room)[t] = map[t]; {} __syncwarp();\n"
AT_ONCE = PUBLISH + "    " + ACQUIRE + "\n"


@pytest.mark.parametrize(
    ("fences", "case"),
    [
        (AT_ONCE, ""),
        (PUBLISH, "map acquire"),
        (f"{ACQUIRE}{PUBLISH}", "map acquire"),  # too early
        (AT_ONCE.replace(ACQUIRE, f"if (t == 0) {ACQUIRE}"), ""),
        (AT_ONCE.replace(ACQUIRE, ACQUIRE.replace("(room)", "(room + 128)")), "map acquire"),  # of another map
        (BY_STORES.format(RELEASE) + ACQUIRE, ""),
        (BY_STORES.format("") + ACQUIRE, "map release"),
        (BY_STORES.format(RELEASE), "map acquire"),
        (BY_STORES.format(""), "map release"),
    ],
)
def test_fences_between_a_map_and_its_use(fences: str, case: str) -> None:
    assert AT_ONCE in CHANGED
    source = CHANGED.replace(AT_ONCE, fences)
    a, other, y, _ = changed_arguments()
    found = simulate(source, "k", 1, 32, [a, other, y, np.zeros(256, np.uint8)], arch=ARCH)
    assert found.fault is None, found.fault
    serious = [it for it in found.findings if it.severity != "note"]
    assert [(it.kind, it.case) for it in serious] == ([("async_proxy", case)] if case else [])


# Block 0 writes the map in global memory itself; both blocks copy by it.
HANDED_OVER = (
    HEAD
    + TENSOR
    + """
extern "C" __global__ void k(const __grid_constant__ Map given, float *y, unsigned char *room, int *ready)
{
    __shared__ __align__(1024) float box[8 * 32];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); made(); }
    if (blockIdx.x == 0) {
        reinterpret_cast<unsigned *>(room)[t] = reinterpret_cast<const unsigned *>(&given)[t];
        __syncwarp();
        if (t == 0)
            asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], 1, %1;" :: "l"(room), "r"(7)
                         : "memory");
        __syncwarp();
        RELEASE
        __threadfence();
        if (t == 0) atomicExch(ready, 1);
    } else if (t == 0)
        while (atomicAdd(ready, 0) == 0) {}
    __syncwarp();
    ACQUIRE
    if (t == 0) { expect(&bar, 1024); box_load(box, (const Map *)room, 0, 2, &bar); }
    wait(&bar, 0);
    for (int i = t; i < 256; i += 32)
        y[256 * blockIdx.x + i] = box[i];
}
"""
)


@pytest.mark.parametrize(
    ("release", "acquire", "case"),
    [
        (RELEASE, ACQUIRE, ""),
        ("", ACQUIRE, "map release"),
        (RELEASE, "", "map acquire"),
        (RELEASE, f"if (blockIdx.x == 0) {ACQUIRE}", "map acquire"),
        (RELEASE, f"if (blockIdx.x == 1) {ACQUIRE}", "map acquire"),
    ],
)
def test_fences_between_blocks(release: str, acquire: str, case: str) -> None:
    source = HANDED_OVER.replace("RELEASE", release).replace("ACQUIRE", acquire)
    a = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)
    y = np.zeros((2, 8, COLS), np.float32)
    given = [TensorMap(a, (8, COLS)), y, np.zeros(128, np.uint8), np.zeros(1, np.int32)]
    found = simulate(source, "k", 2, 32, given, arch=ARCH)
    assert found.fault is None, found.fault
    assert np.array_equal(y, np.broadcast_to(np.pad(a[2:7], ((0, 3), (0, 0))), y.shape))
    serious = [it for it in found.findings if it.severity != "note"]
    assert {(it.kind, it.case) for it in serious} == ({("async_proxy", case)} if case else set())
