// honest: who gives each warp its own part of the copy: warps 0 and 1 bring A, all bring B
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int row = warp / 2 * 32 + (lane / 16 * 2 + lane % 2) * 4, col = warp % 2 * 64 + lane / 2 % 8 * 4;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        if (warp < 2) {
            // A row a lane, all eight k of it; stores go to 32 neighbours.
            const float *a = A + (blockIdx.y * BM + t) * K + k0;
            const float4 u = float4_at(a[0]), v = float4_at(a[4]);
            As[0][t] = u.x, As[1][t] = u.y, As[2][t] = u.z, As[3][t] = u.w;
            As[4][t] = v.x, As[5][t] = v.y, As[6][t] = v.z, As[7][t] = v.w;
        }
        float4_at(Bs[warp * 2][lane * 4]) = float4_at(B[(k0 + warp * 2) * N + blockIdx.x * BN + lane * 4]);
        float4_at(Bs[warp * 2 + 1][lane * 4]) = float4_at(B[(k0 + warp * 2 + 1) * N + blockIdx.x * BN + lane * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[k][row]);
            float4_at(x[4]) = float4_at(As[k][row + 16]);
            float4_at(y[0]) = float4_at(Bs[k][col]);
            float4_at(y[4]) = float4_at(Bs[k][col + 32]);
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
