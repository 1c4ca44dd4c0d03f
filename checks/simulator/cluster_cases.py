"""CUDA text that tests of clusters share: PTX as functions, and kernels whose blocks exchange data."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.simulator.phase_cases import HEAD, TENSOR


def changed(source: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return source


CLUSTER_HEAD = (
    HEAD
    + """
__device__ unsigned rank() { unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ unsigned at(const void *p, unsigned rank) {
    unsigned a; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(AT(p)), "r"(rank)); return a; }
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ void cluster_sync() { cluster_arrive(); cluster_wait(); }
__device__ void put(unsigned to, float v) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(to), "f"(v) : "memory"); }
__device__ float get(unsigned from) {
    float v; asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(from) : "memory"); return v; }
__device__ void arrive_at(unsigned b) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(b) : "memory"); }
__device__ void wait_cluster(u64 *b, unsigned parity) {
    unsigned yes;
    do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
                    " selp.u32 %0, 1, 0, p; }" : "=r"(yes) : "r"(AT(b)), "r"(parity) : "memory"); while (!yes); }
__device__ void multicast(void *to, const void *from, int n, u64 *b, short mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1], %2, [%3], %4;" :: "r"(AT(to)), "l"(from), "r"(n), "r"(AT(b)), "h"(mask) : "memory"); }
__device__ void send(unsigned to, const void *from, int n, unsigned b) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "r"(AT(from)), "r"(n), "r"(b) : "memory"); }
"""
)
# Each block of a pair stores its values into the other's shared memory.
PUSH = (
    CLUSTER_HEAD
    + """
extern "C" __global__ void __cluster_dims__(2) k(const float *x, float *y)
{
    __shared__ float box[64];
    const int t = threadIdx.x, g = blockIdx.x * 64 + t;
    cluster_sync(); // both have started
    put(at(&box[t], rank() ^ 1), x[g]);
    cluster_sync(); // both have stored
    y[g] = box[63 - t];
}
"""
)
# Each block of a pair reads the other's shared memory.
PULL = (
    CLUSTER_HEAD
    + """
extern "C" __global__ void __cluster_dims__(2) k(const float *x, float *y)
{
    __shared__ float box[64];
    const int t = threadIdx.x, g = blockIdx.x * 64 + t;
    box[t] = x[g];
    cluster_sync(); // both have stored
    y[g] = get(at(&box[63 - t], rank() ^ 1));
    cluster_sync(); // both have read
}
"""
)
# Both blocks of a pair need the same 4 tiles of 1 KB. Each copies half of a tile by multicast, through 2 stages.
SHARE = (
    CLUSTER_HEAD
    + """
extern "C" __global__ void __cluster_dims__(2) k(const float *x, float *y)
{
    __shared__ __align__(128) float stage[2][256];
    __shared__ u64 full[2], empty[2];
    const int t = threadIdx.x, tiles = 4;
    if (t == 0) { for (int s = 0; s < 2; ++s) { init(&full[s], 1); init(&empty[s], 2); } made(); }
    cluster_sync(); // mbarriers are ready
    const float *from = x + blockIdx.x / 2 * tiles * 256;
    if (t < 32) {
        if (t == 0)
            for (int i = 0; i < tiles; ++i) {
                const int s = i % 2;
                wait_cluster(&empty[s], (i / 2 + 1) & 1);
                expect(&full[s], 1024);
                multicast(stage[s] + 128 * rank(), from + i * 256 + 128 * rank(), 512, &full[s], 3);
            }
    } else {
        for (int i = 0; i < tiles; ++i) {
            const int s = i % 2;
            wait(&full[s], i / 2 & 1);
            for (int e = t - 32; e < 256; e += 32)
                y[(blockIdx.x * tiles + i) * 256 + e] = 2 * stage[s][255 - e];
            __syncwarp();
            if (t < 34)
                arrive_at(at(&empty[s], t - 32)); // one thread for each block of the pair
        }
    }
    cluster_sync(); // no block ends before the other's last arrival
}
"""
)
# A block sends a tile to its neighbour in the cluster, which waits for the bytes.
SEND = (
    CLUSTER_HEAD
    + """
extern "C" __global__ void __cluster_dims__(4) k(const float *x, float *y)
{
    __shared__ __align__(128) float out[64], in[64];
    __shared__ u64 bar;
    const int t = threadIdx.x, g = blockIdx.x * 64 + t;
    if (t == 0) { init(&bar, 1); made(); expect(&bar, 256); }
    out[t] = x[g];
    fence_async();
    cluster_sync(); // all mbarriers are ready
    const unsigned next = (rank() + 1) % 4;
    if (t == 0) send(at(in, next), out, 256, at(&bar, next));
    wait_cluster(&bar, 0);
    y[g] = in[63 - t];
    cluster_sync(); // all bytes have arrived
}
"""
)
# The same by a reduction into zeros.
SEND_OR = changed(
    SEND,
    ("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [",
     "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.or.b32 ["),
    ("out[t] = x[g];", "out[t] = x[g]; in[t] = 0;"),
)  # fmt: skip
# Boxes by TMA for both blocks of a pair: each copies its half of the rows by multicast.
SHARE_BOX = (
    CLUSTER_HEAD
    + TENSOR
    + """
__device__ void multicast_box(void *to, const Map *map, int x, int y, u64 *b, short mask) {
    asm volatile("{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;"
                 " cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                 ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, policy; }"
                 :: "r"(AT(to)), "l"(map), "r"(x), "r"(y), "r"(AT(b)), "h"(mask) : "memory"); }
extern "C" __global__ void __cluster_dims__(2) k(const __grid_constant__ Map map, float *y)
{
    __shared__ __align__(1024) float tile[16][32];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); made(); expect(&bar, 2048); }
    cluster_sync();
    if (t == 0) multicast_box(tile[8 * rank()], &map, blockIdx.x / 2 * 32, 8 * rank(), &bar, 3);
    wait(&bar, 0);
    for (int r = 0; r < 16; ++r) y[(blockIdx.x * 16 + r) * 32 + t] = tile[r][t];
    cluster_sync();
}
"""
)
# Each block of a cluster of four accesses the shared memory of the next one; BODY is the access.
FORMS = (
    CLUSTER_HEAD
    + """
extern "C" __global__ void __cluster_dims__(4) k(unsigned *y)
{
    __shared__ __align__(16) unsigned box[256];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    const unsigned next = (rank() + 1) % 4, there = at(box, next), b = at(&bar, next);
    box[t] = 1000 * rank() + t;
    if (t == 0) { init(&bar, COUNT); made(); }
    cluster_sync();
    unsigned got = 0, a = there + 4 * t;
    BODY
    wait_cluster(&bar, 0);
    cluster_sync();
    y[(blockIdx.x * 32 + t) * 2] = got;
    y[(blockIdx.x * 32 + t) * 2 + 1] = box[t];
}
"""
)
ARRIVE = 'asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(b) : "memory");'
ONE = f"if (t == 0) {{ {ARRIVE} }}"
NEXT = (np.arange(4)[:, None] + 1) % 4
T = np.arange(32)[None, :]
OLD_THERE, OLD_HERE = 1000 * NEXT + T, 1000 * np.arange(4)[:, None] + T


def at_once(ptx: str, *operands: str) -> str:
    return f'asm volatile("{ptx}" : "=r"(got) : {", ".join(operands)} : "memory");'


# BODY; COUNT of the mbarrier (-1: the body's arrival ends the phase; otherwise one arrival is added, and 0 counts as
# 1); each thread's ``got``, and its element of ``box`` afterwards.
FORM_CASES: list[tuple[str, int, Any, Any]] = [
    (at_once("ld.shared::cluster.u32 %0, [%1];", '"r"(a)'), 0, OLD_THERE, OLD_HERE),
    (at_once("ld.shared::cluster.u32 %0, [%1];", '"r"(at(&box[t], rank()))'), 0, OLD_HERE, OLD_HERE),
    (at_once("ld.relaxed.cluster.shared::cluster.u32 %0, [%1 + 4];", '"r"(there)'), 0, 1000 * NEXT + 1 + 0 * T,
     OLD_HERE),
    (at_once("atom.shared::cluster.add.u32 %0, [%1], %2;", '"r"(a)', '"r"(t)'), 0, OLD_THERE, OLD_HERE + T),
    (at_once("atom.acq_rel.cluster.shared::cluster.exch.b32 %0, [%1], 7;", '"r"(a)'), 0, OLD_THERE,
     7 + 0 * OLD_HERE),
    (at_once("getctarank.shared::cluster.u32 %0, %1;", '"r"(a)'), 0, NEXT + 0 * T, OLD_HERE),
    ('u64 g; asm("cvta.shared.u64 %0, %1; mapa.u64 %0, %0, %2;" : "=&l"(g) : "l"((u64)AT(&box[t])), "r"(next));'
     "got = *(unsigned *)g;", 0, OLD_THERE, OLD_HERE),
    ('asm volatile("{ .reg .b64 g; cvta.shared.u64 g, %1; getctarank.u64 %0, g; }" : "=r"(got) : "l"((u64)a));',
     0, NEXT + 0 * T, OLD_HERE),
    ('asm volatile("red.shared::cluster.max.u32 [%0], 2010;" :: "r"(a) : "memory");', 0, 0 * OLD_HERE,
     np.maximum(OLD_HERE, 2010)),
    ('if (t < 8) asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %1, %1, %1};" :: "r"(there + 16 * t), "r"(t)'
     ' : "memory");', 0, 0 * OLD_HERE, T // 4 + 0 * OLD_HERE),
    ('if (t == 0) asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], 128;" :: "r"(b)'
     ' : "memory"); __syncwarp(); asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32'
     ' [%0], %1, [%2];" :: "r"(a), "r"(t + 5), "r"(b) : "memory");', 0, 0 * OLD_HERE, T + 5 + 0 * OLD_HERE),
    ('if (t == 0) asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], 64;"'
     ' :: "r"(b) : "memory"); if (t < 4) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32'
     ' [%0], {%1, %1, %1, %1}, [%2];" :: "r"(there + 16 * t), "r"(t), "r"(b) : "memory");',
     -1, 0 * OLD_HERE, np.where(T < 16, T // 4, OLD_HERE)),
    ('if (t == 0) asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], 128;" :: "r"(b) : "memory");'
     ' asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32'
     ' [%0], %1, [%2];" :: "r"(a), "r"(t + 5), "r"(b) : "memory");', -1, 0 * OLD_HERE, OLD_HERE + T + 5),
    ('if (t == 0) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], 3;" :: "r"(b)'
     ' : "memory");', 4, 0 * OLD_HERE, OLD_HERE),
    ('if (t == 0) asm volatile("mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(b)'
     ' : "memory");', 2, 0 * OLD_HERE, OLD_HERE),
]  # fmt: skip


def form_source(body: str, count: int) -> str:
    """Return the kernel of a case of ``FORM_CASES``."""
    rest = "" if count < 0 else ONE
    return changed(FORMS, ("BODY", body + rest), ("COUNT", str(max(count, 1))))


def many_dimensions(dims: int) -> tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return a kernel that loads a box of an array and stores it, the shapes of both, and where the box begins in the
    array that it loads and in the one that it stores."""
    shape = (3, 5, 4, 3, 8)[-dims:]
    box = (2, 2, 3, 2, 4)[-dims:]
    corner = (1, 4, -1, 1, 4)[-dims:]
    places = ", ".join(f"%{2 + i}" for i in range(dims))
    operands = ", ".join(f'"r"({place})' for place in corner[::-1])
    stores = corner if min(corner) >= 0 else tuple(max(place, 0) for place in corner)
    out_operands = ", ".join(f'"r"({place})' for place in stores[::-1])
    source = f"""{CLUSTER_HEAD}
    struct __align__(64) Map {{ u64 opaque[16]; }};
    extern "C" __global__ void k(const __grid_constant__ Map in, const __grid_constant__ Map out, float *y)
    {{
        __shared__ __align__(128) float tile[{int(np.prod(box))}];
        __shared__ u64 bar;
        const int t = threadIdx.x;
        if (t == 0) {{ init(&bar, 1); made(); expect(&bar, sizeof(tile));
            asm volatile("prefetch.tensormap [%0];" :: "l"(&in) : "memory");
            asm volatile("cp.async.bulk.tensor.{dims}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                " [%0], [%1, {{{places}}}], [%{2 + dims}];"
                :: "r"(AT(tile)), "l"(&in), {operands}, "r"(AT(&bar)) : "memory"); }}
        __syncthreads();
        wait(&bar, 0);
        for (int e = t; e < sizeof(tile) / 4; e += 32) y[e] = tile[e];
        if (t == 0) {{
            asm volatile("cp.async.bulk.tensor.{dims}d.global.shared::cta.tile.bulk_group [%1, {{{places}}}], [%0];"
                :: "r"(AT(tile)), "l"(&out), {out_operands} : "memory");
            commit(); drain(); }}
    }}"""
    return source, shape, box, corner, stores
