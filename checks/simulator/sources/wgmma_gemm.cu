// A product by wgmma of tiles that threads store.
#include <cuda_bf16.h>
__device__ unsigned long long tile(const void *start)
{
    const unsigned long long address = __cvta_generic_to_shared(start);
    return address >> 4 | 64ull << 16 | 8ull << 32;  // leading offset 1024 bytes, stride 128
}

extern "C" __global__ void __launch_bounds__(128) k(const __nv_bfloat16 *A, const __nv_bfloat16 *B, float *C, int k_all)
{
    __shared__ __align__(128) __nv_bfloat16 As[2][16 * 64], Bs[2][16 * 64];
    const int t = threadIdx.x;
    float d[32] = {};
    for (int k0 = 0; k0 < k_all; k0 += 16) {
        const int stage = k0 / 16 % STAGES;
        for (int i = t; i < 64 * 16; i += 128) {
            const int row = i / 16, k = i % 16, to = k / 8 * 512 + row / 8 * 64 + row % 8 * 8 + k % 8;
            As[stage][to] = A[row * k_all + k0 + k];
            Bs[stage][to] = B[row * k_all + k0 + k];  // B is (N, K)
        }
        PROXY
        __syncthreads();
        FENCE
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 LIST, %32, %33, 1, 1, 1, 0, 0;"
                     : RESULTS : "l"(tile(As[stage])), "l"(tile(Bs[stage])));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        EARLY
        WAIT
        AFTER
    }
    LAST
    for (int i = 0; i < 32; i++) {
        const int row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2), col = 8 * (i / 4) + 2 * (t % 4) + i % 2;
        C[row * 64 + col] = d[i];
    }
}
