// honest: has two buffers already, and one barrier
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int t = threadIdx.x, row = t / 16 * 4, col = t % 16 * 4;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8] = {};
    for (int k0 = 0, now = 0; k0 < K; k0 += BK, now = 1 - now) {
        const float4 v = float4_at(a[k0]);
        As[now][t % 2 * 4 + 0][t / 2] = v.x;
        As[now][t % 2 * 4 + 1][t / 2] = v.y;
        As[now][t % 2 * 4 + 2][t / 2] = v.z;
        As[now][t % 2 * 4 + 3][t / 2] = v.w;
        float4_at(Bs[now][t / 32][t % 32 * 4]) = float4_at(b[k0 * N]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[now][k][row]);
            float4_at(x[4]) = float4_at(As[now][k][row + 64]);
            float4_at(y[0]) = float4_at(Bs[now][k][col]);
            float4_at(y[4]) = float4_at(Bs[now][k][col + 64]);
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 64 + i % 4) * N + blockIdx.x * BN + col + j * 16]) = float4_at(acc[i][j]);
}
