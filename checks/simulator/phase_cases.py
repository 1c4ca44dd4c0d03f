"""CUDA text that tests of mbarriers and bulk copies share: PTX as functions, and kernels of whole copies."""

from pathlib import Path

HEAD = (Path(__file__).parent / "sources" / "phases.cuh").read_text()
TENSOR = """
struct __align__(64) Map { u64 opaque[16]; };
__device__ void box_load(void *to, const Map *map, int x, int y, u64 *b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(AT(to)), "l"(map), "r"(x), "r"(y), "r"(AT(b)) : "memory"); }
__device__ void box_store(const Map *map, int x, int y, const void *from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(map), "r"(x), "r"(y), "r"(AT(from)) : "memory"); }
"""
# A block doubles 4 tiles of 1 KB through 2 stages; one warp copies, the others compute.
PIPELINE = (
    HEAD
    + """
extern "C" __global__ void k(const float *x, float *y)
{
    __shared__ __align__(128) float stage[2][256];
    __shared__ u64 full[2], empty[2];
    const int t = threadIdx.x, tiles = 4;
    if (t == 0) { for (int s = 0; s < 2; ++s) { init(&full[s], 1); init(&empty[s], 64); } made(); }
    __syncthreads();
    const float *from = x + blockIdx.x * tiles * 256;
    if (t < 32) {
        if (t == 0)
            for (int i = 0; i < tiles; ++i) {
                wait(&empty[i % 2], (i / 2 + 1) & 1);
                expect(&full[i % 2], 1024);
                bulk_load(stage[i % 2], from + i * 256, 1024, &full[i % 2]);
            }
    } else {
        for (int i = 0; i < tiles; ++i) {
            wait(&full[i % 2], i / 2 & 1);
            for (int e = t - 32; e < 256; e += 64)
                y[(blockIdx.x * tiles + i) * 256 + e] = 2 * stage[i % 2][255 - e];
            arrive(&empty[i % 2]);
        }
    }
}
"""
)
# A block copies a tile of 1 KB in, mirrors it in place, and copies it out.
MIRROR = (
    HEAD
    + """
extern "C" __global__ void k(const float *x, float *y)
{
    __shared__ __align__(128) float tile[256];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); made(); }
    __syncthreads();
    if (t == 0) { expect(&bar, 1024); bulk_load(tile, x + 256 * blockIdx.x, 1024, &bar); }
    wait(&bar, 0);
    float v = tile[255 - t];
    __syncthreads();
    tile[t] = v;
    fence_async();
    __syncthreads();
    if (t == 0) { bulk_store(y + 256 * blockIdx.x, tile, 1024); commit(); drain(); }
}
"""
)
# One block copies a box of 8 x 32 floats from (x, y) to (x2, y2), and stores the shared memory unchanged to ``raw``.
BOX = (
    HEAD
    + TENSOR
    + """
extern "C" __global__ void k(const __grid_constant__ Map in, const __grid_constant__ Map out, float *raw,
                             int x, int y, int x2, int y2)
{
    extern __shared__ __align__(1024) float tile[];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); made(); }
    __syncthreads();
    if (t == 0) { expect(&bar, 1024); box_load(tile, &in, x, y, &bar); }
    wait(&bar, 0);
    for (int e = t; e < 256; e += 32) raw[e] = tile[e];
    if (t == 0) { box_store(&out, x2, y2, tile); commit(); drain(); }
}
"""
)
