// Tiles of 128 x 256 of C from registers to L2, by 256 of a block's 384 threads; or an empty launch (tiles 0).
// WAY 0: an instruction stores 8 rows of 16 bytes, as wgmma's registers lie; 1: 8 rows of 32; 2: 4 rows of 128; 3: TMA.
#include "hopper.cuh"

__device__ inline long long clock_now()
{
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}

extern "C" __global__ void __launch_bounds__(384, 1)
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
ends(const __grid_constant__ CUtensorMap map_C, __nv_bfloat16 *C, long long *out, int N, int tiles)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    if (!tiles || threadIdx.x < 128)
        return;
    const int t = threadIdx.x % 128, half = threadIdx.x / 128 - 1, lane = t % 32;
    float d[128];
    for (int i = 0; i < 128; i++)
        d[i] = threadIdx.x * i;
    long long began, ended;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began)::"memory");
    const long long begin = clock_now();
    for (int tile = 0; tile < tiles; tile++) {
        const int row0 = blockIdx.x / 8 * 128 + half * 64, col0 = (blockIdx.x % 8 + 8 * (tile % 2)) * 256;
#if WAY == 0
        store_rows(d, C, row0, col0, N);
#elif WAY == 1
        __nv_bfloat16 *at = C + (long long)(row0 + t / 32 * 16 + lane / 4) * N + col0 + lane % 4 * 4;
        for (int i = 0; i < 32; i++)
            *reinterpret_cast<uint2 *>(at + (long long)(i % 2) * 8 * N + i / 2 * 16) =
                uint2{packed(d[4 * i], d[4 * i + 1]), packed(d[4 * i + 2], d[4 * i + 3])};
#elif WAY == 2
        __nv_bfloat16 *at = C + (long long)(row0 + t / 32 * 16 + lane / 8) * N + col0 + lane % 8 * 8;
        for (int i = 0; i < 16; i++)
            *reinterpret_cast<uint4 *>(at + (long long)(i % 4) * 4 * N + i / 4 * 64) =
                uint4{packed(d[8 * i], d[8 * i + 1]), packed(d[8 * i + 2], d[8 * i + 3]), packed(d[8 * i + 4], d[8 * i + 5]),
                      packed(d[8 * i + 6], d[8 * i + 7])};
#else
        if (t == 0)
            stores_have_read();
        named_barrier(1 + half, 128);
        for (int pair = 0; pair < 16; pair++) {
            const float *sums = d + 8 * pair;
            const unsigned four[4] = {packed(sums[0], sums[1]), packed(sums[2], sums[3]), packed(sums[4], sums[5]),
                                      packed(sums[6], sums[7])};
            const int row = t / 32 * 16 + lane % 16, piece = (pair % 4 * 2 + lane / 16) ^ row % 8;
            store_matrices(shared + half * 32768 + pair / 4 * 8192 + row * 128 + piece * 16, four);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        named_barrier(1 + half, 128);
        if (t == 0) {
            for (int strip = 0; strip < 4; strip++)
                store_box(map_C, shared + half * 32768 + strip * 8192, col0 + 64 * strip, row0);
            stores_commit();
        }
#endif
    }
    if (WAY == 3 && t == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    else
        __threadfence();
    const long long end = clock_now();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ended)::"memory");
    if (lane == 0) {
        long long *own = out + (blockIdx.x * 8 + half * 4 + t / 32) * 2;
        own[0] = end - begin, own[1] = ended - began;
    }
}
