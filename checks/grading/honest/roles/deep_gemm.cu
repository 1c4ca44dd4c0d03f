// honest: DeepGEMM's structure: rounds over all stages, a lane of each warp arrives, the products of a stage end before it
#include <cuda_bf16.h>

#include "tma.cuh"
#include "wgmma.cuh"

constexpr int kNumTMAThreads = 32, kNumMathThreads = 256, kNumStages = STAGES;

__device__ inline unsigned long long smem_desc(const void *p, int leading)
{
    return (unsigned long long)(__cvta_generic_to_shared(p) >> 4) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(1024 >> 4) << 32 | (unsigned long long)1 << 62;
}

extern "C" __global__ void __launch_bounds__(kNumMathThreads + kNumTMAThreads, 1)
gemm(const __grid_constant__ CUtensorMap tensor_map_a, const __grid_constant__ CUtensorMap tensor_map_b,
     __nv_bfloat16 *gmem_d, int shape_m, int shape_n, int shape_k)
{
    extern __shared__ __align__(1024) unsigned char smem_buffer[];
    __nv_bfloat16 *smem_a[kNumStages], *smem_b[kNumStages];
    for (int i = 0; i < kNumStages; ++i) {
        smem_a[i] = reinterpret_cast<__nv_bfloat16 *>(smem_buffer + i * BM * BK * 2);
        smem_b[i] = reinterpret_cast<__nv_bfloat16 *>(smem_buffer + kNumStages * BM * BK * 2 + i * BN * BK * 2);
    }
    __shared__ Barrier full_barriers[kNumStages], empty_barriers[kNumStages];
    if (threadIdx.x == kNumMathThreads) {
        for (int i = 0; i < kNumStages; ++i) {
            init(full_barriers[i], 1);
            init(empty_barriers[i], kNumMathThreads / 32);
        }
        barriers_are_ready();
    }
    __syncthreads();
    const int num_k_blocks = shape_k / BK, num_rounds = (num_k_blocks + kNumStages - 1) / kNumStages;

    if (threadIdx.x >= kNumMathThreads) {
        if (threadIdx.x == kNumMathThreads)
            for (int round = 0; round < num_rounds; ++round)
                for (int s = 0; s < kNumStages && round * kNumStages + s < num_k_blocks; ++s) {
                    await(empty_barriers[s], (round + 1) & 1);
                    const int k_idx = (round * kNumStages + s) * BK;
                    copy_box(smem_a[s], tensor_map_a, k_idx, blockIdx.y * BM, full_barriers[s]);
                    for (int n = 0; n < BN / 64; ++n)
                        copy_box(smem_b[s] + n * 64 * BK, tensor_map_b, blockIdx.x * BN + n * 64, k_idx,
                                 full_barriers[s]);
                    arrive_for(full_barriers[s], (BM + BN) * BK * 2);
                }
        return;
    }
    const int math_wg_idx = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), lane_idx = threadIdx.x & 31;
    float accum[BN / 2] = {0};
    for (int round = 0; round < num_rounds; ++round)
        for (int s = 0; s < kNumStages && round * kNumStages + s < num_k_blocks; ++s) {
            await(full_barriers[s], round & 1);
            wgmma_fence();
            for (int k = 0; k < BK / 16; ++k)
                wgmma_bf16(accum, smem_desc(smem_a[s] + math_wg_idx * 64 * BK + k * 16, 0),
                           smem_desc(smem_b[s] + k * 16 * 64, 64 * BK * 2));
            wgmma_commit();
            wgmma_wait<0>();
            if (lane_idx == 0)
                arrive(empty_barriers[s]);
        }
    const int row = blockIdx.y * BM + threadIdx.x / 32 * 16 + lane_idx / 4, col = blockIdx.x * BN + lane_idx % 4 * 2;
    for (int i = 0; i < BN / 2; i += 2)
        *reinterpret_cast<__nv_bfloat162 *>(gmem_d + (size_t)(row + i % 4 * 4) * shape_n + col + i / 4 * 8) =
            __floats2bfloat162_rn(accum[i], accum[i + 1]);
}
