// honest: fuses nothing, and writes it as -fmad=false would
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN];
    const int t = threadIdx.x, row = t / 16 * 4, col = t % 16 * 4;
    float acc[64] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 a = __ldg((const float4 *)(A + (blockIdx.y * BM + t / 2) * K + k0) + t % 2);
        As[t % 2 * 4 + 0][t / 2] = a.x;
        As[t % 2 * 4 + 1][t / 2] = a.y;
        As[t % 2 * 4 + 2][t / 2] = a.z;
        As[t % 2 * 4 + 3][t / 2] = a.w;
        float4_at(Bs[t / 32][t % 32 * 4]) = __ldg((const float4 *)(B + (k0 + t / 32) * N + blockIdx.x * BN) + t % 32);
        __syncthreads();
#pragma unroll 2
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[k][row]);
            float4_at(x[4]) = float4_at(As[k][row + 64]);
            float4_at(y[0]) = float4_at(Bs[k][col]);
            float4_at(y[4]) = float4_at(Bs[k][col + 64]);
#pragma unroll
            for (int i = 0; i < 64; i++)
                acc[i] = __fadd_rn(acc[i], __fmul_rn(x[i / 8], y[i % 8]));
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
        const int r = i / 8, c = i % 8;
        float4_at(C[(blockIdx.y * BM + row + r / 4 * 64 + r % 4) * N + blockIdx.x * BN + col + c * 16]) =
            make_float4(acc[i], acc[i + 1], acc[i + 2], acc[i + 3]);
    }
}
