// honest: a warp programmer: four lanes transpose 4 x 4 numbers of A with shuffles, so that the store is a float4
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN];
    const int t = threadIdx.x, lane = t % 32, row = t / 16 * 4, col = t % 16 * 4;
    // Lanes 8 q + i and 8 q + 4 + i hold row 4 q + i: its first four k and its last four.
    const int q = t / 8, half = lane / 4 % 2, i = lane % 4;
    const float *a = A + (blockIdx.y * BM + q * 4 + i) * K + half * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4 v = float4_at(a[k0]);
        // Swap the off-diagonal 2 x 2 quarters, then inside the quarters.
        const float s0 = __shfl_xor_sync(~0u, i & 2 ? v.x : v.z, 2), s1 = __shfl_xor_sync(~0u, i & 2 ? v.y : v.w, 2);
        if (i & 2)
            v.x = s0, v.y = s1;
        else
            v.z = s0, v.w = s1;
        const float u0 = __shfl_xor_sync(~0u, i & 1 ? v.x : v.y, 1), u1 = __shfl_xor_sync(~0u, i & 1 ? v.z : v.w, 1);
        if (i & 1)
            v.x = u0, v.z = u1;
        else
            v.y = u0, v.w = u1;
        float4_at(As[half * 4 + i][q * 4]) = v;
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(b[k0 * N]);
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
