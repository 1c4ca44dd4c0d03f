// honest: forgot his printf
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK], Bs[BK][BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4_at(As[t / 2][t % 2 * 4]) = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
        if (t == 0 && blockIdx.x + blockIdx.y == 0)
            printf("k0 = %d\n", k0);
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float a[8][4], b[8];
            for (int i = 0; i < 8; i++)
                float4_at(a[i][0]) = float4_at(As[r + i][k]);
            for (int s = 0; s < 4; s++) {
                float4_at(b[0]) = float4_at(Bs[k + s][c]);
                float4_at(b[4]) = float4_at(Bs[k + s][c + 4]);
                for (int i = 0; i < 8; i++)
                    for (int j = 0; j < 8; j++)
                        acc[i][j] += a[i][s] * b[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j]) = float4_at(acc[i][j]);
}
