// honest: who transposes A on its way with cp.async of four bytes each
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN];
    const int t = threadIdx.x, row = t / 16 * 4, col = t % 16 * 4;
    const auto shared = [](const void *p) { return (unsigned)__cvta_generic_to_shared(p); };
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared(&As[t % 8][t / 8 + 32 * i])),
                         "l"(A + (blockIdx.y * BM + t / 8 + 32 * i) * K + k0 + t % 8) : "memory");
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared(&Bs[t / 32][t % 32 * 4])),
                     "l"(B + (k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[k][row]);
            float4_at(x[4]) = float4_at(As[k][row + 64]);
            float4_at(y[0]) = float4_at(Bs[k][col]);
            float4_at(y[4]) = float4_at(Bs[k][col + 64]);
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 64 + i % 4) * N + blockIdx.x * BN + col + j * 16]) = float4_at(acc[i][j]);
}
