"""CUDA text that tests of clusters share: PTX as functions, and kernels whose blocks exchange data."""

from checks.simulator.phase_cases import HEAD, TENSOR

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
# Both blocks of a pair need the same 4 tiles of 1 KB. Each one asks for a half and multicasts it, through 2 stages.
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
# Boxes by the TMA, for both blocks of a pair: each one asks for its half of the rows.
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
