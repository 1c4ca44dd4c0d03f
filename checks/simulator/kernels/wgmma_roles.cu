// C = A B^T in bf16, fp32 sums: a producer warpgroup asks the TMA for tiles, consumer warpgroups multiply them by wgmma.
// A is (M, K), B is (N, K); both are swizzled by 128 bytes in shared memory. Grid (N / BN, M / BM), block 128 (1 + WGS).
#include <cuda_bf16.h>

#include "tma.cuh"

#ifndef STAGES
#define STAGES 3
#endif
constexpr int WGS = 2, BM = 64 * WGS, BN = 64, BK = 64;

struct Stage {
    __nv_bfloat16 a[BM * BK], b[BN * BK];
};

__device__ unsigned long long tile(const void *start)
{
    return __cvta_generic_to_shared(start) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; // rows of 8: 1024 bytes
}

__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b)
{
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;"
                 " wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10,"
                 " %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30,"
                 " %31}, %32, %33, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
                   "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
                   "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128 * (1 + WGS), 1)
k(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B, float *C, int M, int N, int K)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    Stage *stages = reinterpret_cast<Stage *>(shared);
    __shared__ Barrier full[STAGES], empty[STAGES];
    const int role = threadIdx.x / 128, t = threadIdx.x % 128;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);
            init(empty[stage], WGS);
        }
        barriers_are_ready();
    }
    __syncthreads();

    if (role == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (t == 0)
            for (int i = 0; i < K / BK; i++) {
                const int stage = i % STAGES;
                if (i >= STAGES)
                    AWAIT_EMPTY;
                arrive_for(full[stage], sizeof(Stage));
                copy_box(stages[stage].a, map_A, i * BK, row0, full[stage]);
                copy_box(stages[stage].b, map_B, i * BK, col0, full[stage]);
            }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    float d[32] = {};
    for (int i = 0; i < K / BK; i++) {
        const int stage = i % STAGES;
        AWAIT_FULL;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        const unsigned long long a = tile(stages[stage].a + (role - 1) * 64 * BK), b = tile(stages[stage].b);
        for (int k = 0; k < BK / 16; k++)
            multiply(d, a + 2 * k, b + 2 * k); // 32 bytes further on
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        WAIT;
        if (t == 0)
            arrive(empty[stage]);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 32; i++) {
        const int row = row0 + 64 * (role - 1) + 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2);
        C[row * N + col0 + 8 * (i / 4) + 2 * (t % 4) + i % 2] = d[i];
    }
}
