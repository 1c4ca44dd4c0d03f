// honest: CUTLASS's cooperative main loop: a pipeline state for each role, acquire, commit, wait, release, warpgroup_wait
#include <cuda_bf16.h>

#include "tma.cuh"
#include "wgmma.cuh"

struct PipelineState {
    int index = 0;
    unsigned phase;
    __device__ explicit PipelineState(unsigned first) : phase(first) {}
    __device__ void operator++(int)
    {
        if (++index == STAGES) {
            index = 0;
            phase ^= 1;
        }
    }
};

struct SharedStorage {
    alignas(1024) __nv_bfloat16 A[STAGES][BM * BK];
    alignas(1024) __nv_bfloat16 B[STAGES][BK * BN];
};

struct Pipeline {
    Barrier *full, *empty;
    __device__ void producer_acquire(const PipelineState &s) const
    {
        await(empty[s.index], s.phase);
        arrive_for(full[s.index], (BM + BN) * BK * 2);
    }
    __device__ void consumer_wait(const PipelineState &s) const { await(full[s.index], s.phase); }
    __device__ void consumer_release(const PipelineState &s) const
    {
        if (threadIdx.x % 128 == 0)
            arrive(empty[s.index]);
    }
};

__device__ inline unsigned long long make_desc(const void *p, unsigned long long leading)
{
    return (__cvta_generic_to_shared(p) & 0x3FFFF) >> 4 | leading << 16 | 64ull << 32 | 1ull << 62;
}

__device__ inline bool elect_one_sync()
{
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected;
}

extern "C" __global__ void __launch_bounds__(288, 1)
gemm(const __grid_constant__ CUtensorMap tma_load_a, const __grid_constant__ CUtensorMap tma_load_b,
     __nv_bfloat16 *D, int M, int N, int K)
{
    extern __shared__ __align__(1024) char smem[];
    SharedStorage &storage = *reinterpret_cast<SharedStorage *>(smem);
    __shared__ Barrier full[STAGES], empty[STAGES];
    const int warp_group = threadIdx.x / 128, k_tile_count = K / BK;
    const int m_coord = blockIdx.y * BM, n_coord = blockIdx.x * BN;
    if (threadIdx.x / 32 == 0 && elect_one_sync()) {
        for (int i = 0; i < STAGES; i++) {
            init(full[i], 1);
            init(empty[i], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        barriers_are_ready();
    }
    __syncthreads();
    const Pipeline pipeline{full, empty};

    if (warp_group == 2) {
        PipelineState write(1);
        if (elect_one_sync())
            for (int k_tile = 0; k_tile < k_tile_count; k_tile++, write++) {
                pipeline.producer_acquire(write);
                Barrier &barrier = full[write.index];
                copy_box(storage.A[write.index], tma_load_a, k_tile * BK, m_coord, barrier);
                for (int n = 0; n < BN; n += 64)
                    copy_box(&storage.B[write.index][n * BK], tma_load_b, n_coord + n, k_tile * BK, barrier);
            }
    } else {
        float accum[BN / 2] = {};
        PipelineState read(0), release(0);
        const auto mma = [&]() {
            pipeline.consumer_wait(read);
            wgmma_fence();
            for (int k_block = 0; k_block < BK / 16; k_block++)
                wgmma_bf16(accum, make_desc(&storage.A[read.index][warp_group * 64 * BK + k_block * 16], 1),
                           make_desc(&storage.B[read.index][k_block * 16 * 64], BK * 128 / 16));
            wgmma_commit();
            read++;
        };
        mma(); // the prologue
        for (int k_tile = 1; k_tile < k_tile_count; k_tile++) {
            mma();
            wgmma_wait<1>();
            pipeline.consumer_release(release);
            release++;
        }
        wgmma_wait<0>();
        pipeline.consumer_release(release);

        const int t = threadIdx.x % 128;
        __nv_bfloat16 *d = D + (size_t)(m_coord + warp_group * 64 + t / 32 * 16 + t % 32 / 4) * N + n_coord + t % 4 * 2;
        for (int n = 0; n < BN / 8; n++) {
            *reinterpret_cast<__nv_bfloat162 *>(d + n * 8) = __floats2bfloat162_rn(accum[n * 4], accum[n * 4 + 1]);
            *reinterpret_cast<__nv_bfloat162 *>(d + 8 * N + n * 8) =
                __floats2bfloat162_rn(accum[n * 4 + 2], accum[n * 4 + 3]);
        }
    }
}
