// honest: loads four rows at one k, so that the transposed store is one float4
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    constexpr int LDA = BM + 4;
    __shared__ __align__(16) float As[BK * LDA];
    __shared__ __align__(16) float Bs[BK * BN];
    const int t = threadIdx.x, row = t / 16 * 4, col = t % 16 * 4;
    const float *a = A + (blockIdx.y * BM + t / 8 * 4) * K + t % 8;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK, a += BK, b += BK * N) {
        float4_at(As[t % 8 * LDA + t / 8 * 4]) = make_float4(a[0], a[K], a[2 * K], a[3 * K]);
        float4_at(Bs[t * 4]) = float4_at(*b);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[k * LDA + row]);
            float4_at(x[4]) = float4_at(As[k * LDA + row + 64]);
            float4_at(y[0]) = float4_at(Bs[k * BN + col]);
            float4_at(y[4]) = float4_at(Bs[k * BN + col + 64]);
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
