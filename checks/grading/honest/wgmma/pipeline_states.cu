// honest: writes the main loop of CUTLASS's sm90 kernels without roles: states of a pipeline, all stages filled first
#include <cuda_bf16.h>
#include "tma.cuh"
#include "wgmma.cuh"

struct PipelineState {
    int index = 0;
    unsigned phase = 0;

    __device__ void operator++(int)
    {
        if (++index == STAGES) {
            index = 0;
            phase ^= 1;
        }
    }
};

struct SharedStorage {
    alignas(1024) __nv_bfloat16 smem_a[STAGES][BM * BK];
    alignas(1024) __nv_bfloat16 smem_b[STAGES][BN * BK];
};

__device__ inline bool elect_one_sync()
{
    unsigned chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
    return chosen;
}

// A descriptor's low word changes with the address; its high word is the same for both operands.
union GmmaDescriptor {
    unsigned long long desc;
    struct {
        unsigned short start, leading, stride, mode;
    };
};

extern "C" __global__ void __launch_bounds__(128, BLOCKS_PER_SM)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B, __nv_bfloat16 *C,
     int M, int N, int K)
{
    extern __shared__ __align__(1024) unsigned char raw[];
    SharedStorage &storage = *reinterpret_cast<SharedStorage *>(raw);
    __shared__ Barrier tma_load_mbar[STAGES];
    const int warp_idx = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const bool issues = warp_idx == 0 && elect_one_sync();
    const int m_coord = blockIdx.y * BM, n_coord = blockIdx.x * BN;
    if (issues) {
        for (int pipe = 0; pipe < STAGES; ++pipe)
            init(tma_load_mbar[pipe], 1);
        barriers_are_ready();
    }
    __syncthreads();

    int k_tile = 0, k_tile_count = K / BK;
    PipelineState write, read, release;
    const auto load = [&] {
        if (issues) {
            arrive_for(tma_load_mbar[write.index], (BM + BN) * BK * 2);
            copy_box(storage.smem_a[write.index], map_A, k_tile * BK, m_coord, tma_load_mbar[write.index]);
            for (int n = 0; n < BN; n += 64)
                copy_box(storage.smem_b[write.index] + n * BK, map_B, n_coord + n, k_tile * BK, tma_load_mbar[write.index]);
        }
        write++;
        ++k_tile;
    };
    for (int pipe = 0; pipe < STAGES && k_tile < k_tile_count; ++pipe)
        load();

    float accum[BM / 64][BN / 2];
    for (auto &half : accum)
        for (float &sum : half)
            sum = 0;
    for (auto &half : accum) // warpgroup_fence_operand: zeros are written before the first fence, not after it
        for (float &sum : half)
            asm volatile("" : "+f"(sum)::"memory");
    const auto gemm_k_block = [&](int index) {
        GmmaDescriptor a, b;
        a.start = __cvta_generic_to_shared(storage.smem_a[index]) >> 4;
        b.start = __cvta_generic_to_shared(storage.smem_b[index]) >> 4;
        a.leading = 1, b.leading = BK * 128 >> 4;
        a.stride = b.stride = 1024 >> 4;
        a.mode = b.mode = 1 << 14;
        wgmma_fence();
        for (int k_block = 0; k_block < BK / 16; ++k_block)
            for (int m = 0; m < BM / 64; ++m)
                wgmma_bf16(accum[m], a.desc + k_block * 2 + m * (64 * 128 >> 4), b.desc + k_block * (16 * 128 >> 4));
        wgmma_commit();
    };
    // Prologue: the first tile's products. Main loop: one group stays in flight, and the stage before it is refilled.
    await(tma_load_mbar[read.index], read.phase);
    gemm_k_block(read.index);
    read++;
    for (int rest = k_tile_count - 1; rest > 0; --rest) {
        await(tma_load_mbar[read.index], read.phase);
        gemm_k_block(read.index);
        wgmma_wait<1>();
        release++;
        if (k_tile < k_tile_count)
            load();
        read++;
    }
    wgmma_wait<0>();

    const int t = threadIdx.x;
#pragma unroll
    for (int m = 0; m < BM / 64; ++m)
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) {
            const int row = m_coord + 64 * m + 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2);
            C[row * N + n_coord + 8 * (i / 4) + 2 * (t % 4) + i % 2] = __float2bfloat16(accum[m][i]);
        }
}
