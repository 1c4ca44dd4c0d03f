// honest: CUTLASS's cluster shape 2x1: PipelineTmaAsync's masks and remote arrivals, a scheduler for each role, an epilogue by stmatrix
#include <cuda_bf16.h>

#include "cluster.cuh"
#include "tma_store.cuh"
#include "wgmma.cuh"

struct TileScheduler {
    int linear;
    int const tiles_m, total;
    __device__ TileScheduler(int M, int N) : linear(blockIdx.x), tiles_m(M / BM), total(M / BM * (N / BN)) {}
    __device__ bool is_valid() const { return linear < total; }
    __device__ void advance_to_next_work() { linear += gridDim.x; }
    __device__ int m() const { return linear % tiles_m * BM; }
    __device__ int n() const { return linear / tiles_m * BN; }
};

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
    alignas(1024) __nv_bfloat16 D[2][64 * 64];
};

__device__ inline unsigned long long make_desc(const void *p, unsigned long long leading)
{
    return (__cvta_generic_to_shared(p) & 0x3FFFF) >> 4 | leading << 16 | 64ull << 32 | 1ull << 62;
}

__device__ inline unsigned pack(float low, float high)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned &>(both);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(288, 1)
gemm(const __grid_constant__ CUtensorMap tma_load_a, const __grid_constant__ CUtensorMap tma_load_b,
     const __grid_constant__ CUtensorMap tma_store_d, int M, int N, int K)
{
    extern __shared__ __align__(1024) char smem[];
    SharedStorage &storage = *reinterpret_cast<SharedStorage *>(smem);
    __shared__ Barrier full[STAGES], empty[STAGES];
    const int warp_group = threadIdx.x / 128, k_tile_count = K / BK, t = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            init(full[i], 1);
            init(empty[i], 2 * CLUSTER); // consumer warpgroups of all blocks that receive from this one
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        barriers_are_ready();
    }
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); // cluster_arrive_relaxed
    const unsigned cta_rank = cluster_rank();
    const unsigned mcast_mask_b = (1u << CLUSTER) - 1;
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); // cluster_wait

    if (warp_group == 2) {
        PipelineState write(1);
        if (t == 0) {
            for (TileScheduler work(M, N); work.is_valid(); work.advance_to_next_work())
                for (int k_tile = 0; k_tile < k_tile_count; k_tile++, write++) {
                    Barrier &barrier = full[write.index];
                    await(empty[write.index], write.phase);
                    arrive_for(barrier, (BM + BN) * BK * 2);
                    copy_box(storage.A[write.index], tma_load_a, k_tile * BK, work.m(), barrier);
                    const int slice = BN / CLUSTER; // of the block's own rank
                    for (int n = cta_rank * slice; n < (cta_rank + 1) * slice; n += 64)
                        share_box(&storage.B[write.index][n * BK], tma_load_b, work.n() + n, k_tile * BK, barrier,
                                  mcast_mask_b);
                }
            // producer_tail: the other block's consumers still arrive here.
            for (int i = 0; i < STAGES; i++, write++)
                await(empty[write.index], write.phase);
        }
        return;
    }

    // One thread of the warpgroup for each block, each in a warp of its own.
    const bool is_signalling_thread = t % 32 == 0 && t / 32 < CLUSTER;
    PipelineState read(0), release(0);
    __nv_bfloat16 *staging = storage.D[warp_group];
    for (TileScheduler work(M, N); work.is_valid(); work.advance_to_next_work()) {
        float accum[BN / 2] = {};
        for (int k_tile = 0; k_tile < k_tile_count; k_tile++) {
            await(full[read.index], read.phase);
            wgmma_fence();
            for (int k_block = 0; k_block < BK / 16; k_block++)
                wgmma_bf16(accum, make_desc(&storage.A[read.index][warp_group * 64 * BK + k_block * 16], 1),
                           make_desc(&storage.B[read.index][k_block * 16 * 64], BK * 128 / 16));
            wgmma_commit();
            read++;
            if (k_tile > 0) {
                wgmma_wait<1>();
                if (is_signalling_thread)
                    arrive_at(empty[release.index], t / 32);
                release++;
            }
        }
        wgmma_wait<0>();
        if (is_signalling_thread)
            arrive_at(empty[release.index], t / 32);
        release++;

        const int row = t / 32 * 16 + t % 16;
#pragma unroll
        for (int epi_n = 0; epi_n < BN / 64; epi_n++) {
            if (t < 32) { // the storing warp
                stores_have_read<0>();
                __syncwarp();
            }
            group_barrier(warp_group + 1);
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                const float *d = &accum[epi_n * 32 + 4 * j];
                const unsigned to =
                    __cvta_generic_to_shared(&staging[row * 64 + ((j + t % 32 / 16) ^ (row % 8)) * 8]);
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                             "r"(pack(d[0], d[1])), "r"(pack(d[2], d[3])), "r"(pack(d[4], d[5])), "r"(pack(d[6], d[7]))
                             : "memory");
            }
            stores_see_shared();
            group_barrier(warp_group + 1);
            if (t == 0) {
                store_box(tma_store_d, work.n() + epi_n * 64, work.m() + warp_group * 64, staging);
                stores_commit();
            }
        }
    }
    if (t == 0)
        stores_have_read<0>();
}
