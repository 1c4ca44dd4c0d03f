// honest: ThunderKittens' load, compute and store: phase bits in one register, a ring of inputs, the producer loads ahead
#include <cuda_bf16.h>

#include "tma.cuh"
#include "wgmma.cuh"

template <typename T, int R, int C>
struct st {
    static constexpr int rows = R, cols = C;
    T data[R * C];
};
using a_tile = st<__nv_bfloat16, 64, 64>;
using b_tile = st<__nv_bfloat16, 64, 64>; // a strip
struct input_block {
    a_tile a[2];
    b_tile b[BN / 64];
};
struct semaphores {
    Barrier arrived[STAGES], finished[STAGES];
};

// One bit for the inputs that arrive, and 16 further up one for those that are finished, which start as 1.
__device__ inline unsigned phasebit(unsigned bits, int ring, bool finished) { return bits >> (ring + 16 * finished) & 1; }
__device__ inline void update_phasebit(unsigned &bits, int ring, bool finished) { bits ^= 1u << (ring + 16 * finished); }

__device__ inline unsigned long long descriptor(const void *tile, int leading)
{
    return (__cvta_generic_to_shared(tile) & 0x3FFFF) >> 4 | (unsigned long long)(leading / 16) << 16 | 64ull << 32 |
           1ull << 62;
}

extern "C" __global__ __launch_bounds__(288, 1) void
gemm(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B, __nv_bfloat16 *C, int M, int N, int K)
{
    extern __shared__ __align__(1024) int shm[];
    input_block *inputs = reinterpret_cast<input_block *>(shm);
    __shared__ semaphores sem;
    const int groupid = threadIdx.x / 128, iters = K / 64;
    if (threadIdx.x < STAGES) { // each thread makes one ring's
        init(sem.arrived[threadIdx.x], 1);
        init(sem.finished[threadIdx.x], 2);
        barriers_are_ready();
    }
    __syncthreads();
    unsigned bits = 0xFFFF0000;
    int ring = 0;
    if (groupid == 2) {
        if (threadIdx.x == 256)
            for (int iter = 0; iter < iters; iter++, ring = (ring + 1) % STAGES) {
                await(sem.finished[ring], phasebit(bits, ring, true));
                update_phasebit(bits, ring, true);
                input_block &in = inputs[ring];
                arrive_for(sem.arrived[ring], sizeof(input_block));
                copy_box(in.a, A, iter * 64, blockIdx.y * BM, sem.arrived[ring]);
                for (int i = 0; i < BN / 64; i++)
                    copy_box(&in.b[i], B, blockIdx.x * BN + 64 * i, iter * 64, sem.arrived[ring]);
            }
    } else {
        float accum[BN / 2];
        for (float &it : accum)
            it = 0;
        for (int iter = 0; iter < iters; iter++, ring = (ring + 1) % STAGES) {
            await(sem.arrived[ring], phasebit(bits, ring, false));
            update_phasebit(bits, ring, false);
            wgmma_fence();
            const input_block &in = inputs[ring];
#pragma unroll
            for (int k = 0; k < 4; k++)
                wgmma_bf16(accum, descriptor(in.a[groupid].data + 16 * k, 0),
                           descriptor(in.b[0].data + 16 * 64 * k, sizeof(b_tile)));
            wgmma_commit();
            wgmma_wait<0>();
            if (threadIdx.x % 128 == 0)
                arrive(sem.finished[ring]);
        }
        const int laneid = threadIdx.x % 32, row = blockIdx.y * BM + threadIdx.x / 32 * 16 + laneid / 4;
        __nv_bfloat16 *top = C + row * N + blockIdx.x * BN + laneid % 4 * 2, *bottom = top + 8 * N;
        for (int j = 0; j < BN / 8; j++) {
            *(__nv_bfloat162 *)&top[8 * j] = __floats2bfloat162_rn(accum[4 * j], accum[4 * j + 1]);
            *(__nv_bfloat162 *)&bottom[8 * j] = __floats2bfloat162_rn(accum[4 * j + 2], accum[4 * j + 3]);
        }
    }
}
