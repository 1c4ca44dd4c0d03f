// honest: already cuts the patch in two: columns 4 c and 64 + 4 c, so that lanes read neighbouring float4
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];
    const int t = threadIdx.x, ty = t / 16, tx = t % 16 * 4;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4_at(As[t / 2][t % 2 * 4]) = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float4 a[8];
            for (int i = 0; i < 8; i++)
                a[i] = float4_at(As[ty + 16 * i][k]);
            for (int s = 0; s < 4; s++) {
                const float4 b0 = float4_at(Bs[k + s][tx]), b1 = float4_at(Bs[k + s][tx + 64]);
                for (int i = 0; i < 8; i++) {
                    const float x = (&a[i].x)[s];
                    acc[i][0] += x * b0.x;
                    acc[i][1] += x * b0.y;
                    acc[i][2] += x * b0.z;
                    acc[i][3] += x * b0.w;
                    acc[i][4] += x * b1.x;
                    acc[i][5] += x * b1.y;
                    acc[i][6] += x * b1.z;
                    acc[i][7] += x * b1.w;
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++) {
        float *c = C + (blockIdx.y * BM + ty + 16 * i) * N + blockIdx.x * BN + tx;
        float4_at(c[0]) = float4_at(acc[i][0]);
        float4_at(c[64]) = float4_at(acc[i][4]);
    }
}
