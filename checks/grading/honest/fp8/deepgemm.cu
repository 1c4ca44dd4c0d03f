// honest: DeepGEMM's kernel: a scheduler, scales of A by TMA and of B in shared memory, a warp's lane that releases, stmatrix
#include <cuda_bf16.h>

#include "tma_store.cuh"
#include "wgmma_bytes.cuh"

constexpr int BLOCK_M = 128, BLOCK_N = 256, BLOCK_K = 128, kNumStages = 4, WGMMA_M = 64, WGMMA_N = 128;
constexpr int SMEM_A = BLOCK_M * BLOCK_K, SMEM_B = BLOCK_N * BLOCK_K, SMEM_SFA = BLOCK_M * 4;
constexpr int kMostK = 64; // K tiles whose scales of B fit

struct Scheduler {
    int current = -1;
    const int num_m, num_blocks;
    __device__ Scheduler(int M, int N) : num_m(M / BLOCK_M), num_blocks(M / BLOCK_M * (N / BLOCK_N)) {}
    __device__ bool get_next_block(int &m_block, int &n_block)
    {
        const int next = ++current * gridDim.x + blockIdx.x;
        m_block = next % num_m;
        n_block = next / num_m;
        return next < num_blocks;
    }
};

__device__ inline unsigned long long make_smem_desc(const void *p)
{
    return (__cvta_generic_to_shared(p) & 0x3FFFF) >> 4 | 64ull << 32 | 1ull << 62;
}

__device__ inline unsigned pack(float low, float high)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned &>(both);
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ CUtensorMap tensor_map_a, const __grid_constant__ CUtensorMap tensor_map_b,
     const __grid_constant__ CUtensorMap tensor_map_d, const __grid_constant__ CUtensorMap tensor_map_sfa,
     const float *sfb, int M, int N, int K)
{
    extern __shared__ __align__(1024) unsigned char smem_buffer[];
    __shared__ Barrier full_barriers[kNumStages], empty_barriers[kNumStages];
    unsigned char *smem_a = smem_buffer, *smem_b = smem_a + kNumStages * SMEM_A;
    unsigned char *smem_d = smem_b + kNumStages * SMEM_B;
    float *smem_sfa = reinterpret_cast<float *>(smem_d + 2 * 64 * 128);
    float(*smem_sfb)[2][kMostK] = reinterpret_cast<float(*)[2][kMostK]>(smem_sfa + kNumStages * BLOCK_M); // of a warpgroup
    const int warp_group = threadIdx.x / 128, t = threadIdx.x % 128, lane = t % 32, k_blocks = K / BLOCK_K;

    if (threadIdx.x == 0) {
        for (int i = 0; i < kNumStages; i++) {
            init(full_barriers[i], 1);
            init(empty_barriers[i], 8);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        barriers_are_ready();
    }
    __syncthreads();

    Scheduler scheduler(M, N);
    int m_block, n_block, iter = 0;
    if (warp_group == 2) {
        registers_down<40>();
        if (t == 0)
            while (scheduler.get_next_block(m_block, n_block))
                for (int k_block = 0; k_block < k_blocks; k_block++, iter++) {
                    const int s = iter % kNumStages;
                    await(empty_barriers[s], iter / kNumStages & 1 ^ 1);
                    copy_box(smem_sfa + s * BLOCK_M, tensor_map_sfa, m_block * BLOCK_M, k_block, full_barriers[s]);
                    copy_box(smem_a + s * SMEM_A, tensor_map_a, k_block * BLOCK_K, m_block * BLOCK_M, full_barriers[s]);
                    copy_box(smem_b + s * SMEM_B, tensor_map_b, k_block * BLOCK_K, n_block * BLOCK_N, full_barriers[s]);
                    arrive_for(full_barriers[s], SMEM_A + SMEM_B + SMEM_SFA);
                }
        return;
    }

    registers_up<232>();
    const int r_0 = warp_group * 64 + t / 32 * 16 + lane / 4, r_1 = r_0 + 8;
    while (scheduler.get_next_block(m_block, n_block)) {
        // The scales of B of all K tiles, by the threads of this warpgroup.
        group_barrier(1 + warp_group);
        for (int i = t; i < 2 * k_blocks; i += 128)
            smem_sfb[warp_group][i / k_blocks][i % k_blocks] = sfb[(n_block * 2 + i / k_blocks) * k_blocks + i % k_blocks];
        group_barrier(1 + warp_group);

        float final_accum[2][WGMMA_N / 2] = {};
        for (int k_block = 0; k_block < k_blocks; k_block++, iter++) {
            const int s = iter % kNumStages;
            await(full_barriers[s], iter / kNumStages & 1);
            const float scale_a_0 = smem_sfa[s * BLOCK_M + r_0], scale_a_1 = smem_sfa[s * BLOCK_M + r_1];
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const float scale_b = smem_sfb[warp_group][n][k_block];
                float accum[WGMMA_N / 2];
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < BLOCK_K / 32; k++)
                    wgmma_bytes(accum, make_smem_desc(smem_a + s * SMEM_A + warp_group * 64 * BLOCK_K + k * 32),
                                make_smem_desc(smem_b + s * SMEM_B + n * WGMMA_N * BLOCK_K + k * 32), k);
                wgmma_commit();
                wgmma_wait<0>();
                if (n == 1) {
                    __syncwarp();
                    if (lane == 0)
                        arrive(empty_barriers[s]);
                }
                const float scale_0_0 = scale_a_0 * scale_b, scale_1_0 = scale_a_1 * scale_b;
#pragma unroll
                for (int i = 0; i < WGMMA_N / 8; i++) {
                    final_accum[n][i * 4 + 0] += scale_0_0 * accum[i * 4 + 0];
                    final_accum[n][i * 4 + 1] += scale_0_0 * accum[i * 4 + 1];
                    final_accum[n][i * 4 + 2] += scale_1_0 * accum[i * 4 + 2];
                    final_accum[n][i * 4 + 3] += scale_1_0 * accum[i * 4 + 3];
                }
            }
        }

        unsigned char *d = smem_d + warp_group * 64 * 128;
        const int row = t / 32 * 16 + t % 16;
#pragma unroll
        for (int store = 0; store < BLOCK_N / 64; store++) {
            if (t == 0)
                stores_have_read<0>();
            group_barrier(1 + warp_group);
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                const float *from = &final_accum[store / 2][store % 2 * 32 + 4 * j];
                const unsigned to = __cvta_generic_to_shared(d + row * 128 + ((j + t % 32 / 16) ^ (row % 8)) * 16);
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                             "r"(pack(from[0], from[1])), "r"(pack(from[2], from[3])), "r"(pack(from[4], from[5])),
                             "r"(pack(from[6], from[7]))
                             : "memory");
            }
            stores_see_shared();
            group_barrier(1 + warp_group);
            if (t == 0) {
                store_box(tensor_map_d, n_block * BLOCK_N + store * 64, m_block * BLOCK_M + warp_group * 64, d);
                stores_commit();
            }
        }
    }
    if (t == 0)
        stores_have_read<0>();
}
