// honest: writes the PTX by hand, in products of 64 x 64, with a barrier for A and one for B, and stores whole rows of C
#include <cuda_bf16.h>

struct alignas(64) Map {
    char bytes[128];
};

__device__ inline unsigned at(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ inline void box(unsigned to, const Map &map, int x, int y, unsigned barrier, unsigned bytes)
{
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                     "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

__device__ inline void until(unsigned barrier, unsigned parity)
{
    unsigned over = 0;
    while (!over)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
__device__ inline void product(float (&d)[32], unsigned long long a, unsigned long long b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12,"
                 " %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33,"
                 " p, 1, 1, 0, 1; }"
                 : R4(0), R4(4), R4(8), R4(12), R4(16), R4(20), R4(24), R4(28)
                 : "l"(a), "l"(b), "r"(add));
}

extern "C" __global__ void __launch_bounds__(128)
gemm(const __grid_constant__ Map map_A, const __grid_constant__ Map map_B, __nv_bfloat16 *C, int M, int N, int K)
{
    constexpr int A_BYTES = BM * 128, B_BYTES = BN * 128, STRIP = 64 * 128;
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ unsigned long long here_a[STAGES], here_b[STAGES][BN / 64];
    const int t = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const unsigned base = at(shared);
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&here_a[s])) : "memory");
            for (auto &strip : here_b[s])
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&strip)) : "memory");
        }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();

    // Another thread for each box: 0 for A, 1, 2, ... for the strips of B.
    const auto fetch = [&](int tile) {
        const int s = tile % STAGES;
        const unsigned to = base + s * (A_BYTES + B_BYTES);
        if (t == 0)
            box(to, map_A, tile * 64, row0, at(&here_a[s]), A_BYTES);
        else if (t <= BN / 64)
            box(to + A_BYTES + (t - 1) * STRIP, map_B, col0 + (t - 1) * 64, tile * 64, at(&here_b[s][t - 1]), STRIP);
        __syncwarp();
    };
    const auto tile_at = [&](unsigned address) {
        return (unsigned long long)(address & 0x3FFFF) >> 4 | 64ull << 32 | 1ull << 62;
    };
    float d[BM / 64][BN / 64][32];
    for (int tile = 0; tile < STAGES - 1 && tile * 64 < K; tile++)
        if (t < 32)
            fetch(tile);
    for (int tile = 0; tile * 64 < K; tile++) {
        const int s = tile % STAGES;
        const unsigned a = base + s * (A_BYTES + B_BYTES), b = a + A_BYTES;
        until(at(&here_a[s]), tile / STAGES & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int n = 0; n < BN / 64; n++) {
            until(at(&here_b[s][n]), tile / STAGES & 1);
#pragma unroll
            for (int m = 0; m < BM / 64; m++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    product(d[m][n], tile_at(a + m * STRIP + k * 32), tile_at(b + n * STRIP + k * 2048), tile + k);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (t < 32 && (tile + STAGES - 1) * 64 < K)
            fetch(tile + STAGES - 1);
    }

    // Through shared memory, 64 rows at a time, so that a warp stores whole rows.
    constexpr int PITCH = BN + 8;
    __nv_bfloat16 *room = reinterpret_cast<__nv_bfloat16 *>(shared);
#pragma unroll
    for (int m = 0; m < BM / 64; m++) {
        __syncthreads();
#pragma unroll
        for (int n = 0; n < BN / 64; n++)
#pragma unroll
            for (int i = 0; i < 32; i += 2)
                *(__nv_bfloat162 *)&room[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * PITCH + n * 64 + i / 4 * 8 + t % 4 * 2] =
                    __floats2bfloat162_rn(d[m][n][i], d[m][n][i + 1]);
        __syncthreads();
        for (int i = t * 8; i < 64 * BN; i += 1024)
            *(uint4 *)&C[(row0 + m * 64 + i / BN) * N + col0 + i % BN] = *(const uint4 *)&room[i / BN * PITCH + i % BN];
    }
}
