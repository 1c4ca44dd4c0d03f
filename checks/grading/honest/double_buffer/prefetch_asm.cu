// honest: asks for the tile after the next with prefetch.global.L2, each turn
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8] = {};
    float4 u = float4_at(*a), v = float4_at(*b), w = float4_at(b[4 * N]);
    int now = 0;
    for (int k0 = 0;; k0 += BK) {
        As[now][t % 2 * 4 + 0][t / 2] = u.x;
        As[now][t % 2 * 4 + 1][t / 2] = u.y;
        As[now][t % 2 * 4 + 2][t / 2] = u.z;
        As[now][t % 2 * 4 + 3][t / 2] = u.w;
        float4_at(Bs[now][t / 32][t % 32 * 4]) = v;
        float4_at(Bs[now][t / 32 + 4][t % 32 * 4]) = w;
        __syncthreads();
        if (k0 + BK < K) {
            u = float4_at(a[k0 + BK]);
            v = float4_at(b[(k0 + BK) * N]);
            w = float4_at(b[(k0 + BK + 4) * N]);
            if (k0 + 2 * BK < K) {
                asm volatile("prefetch.global.L2 [%0];" ::"l"(a + k0 + 2 * BK));
                asm volatile("prefetch.global.L2 [%0];" ::"l"(b + (k0 + 2 * BK) * N));
            }
        }
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[now][k][row]);
            float4_at(x[4]) = float4_at(As[now][k][row + 16]);
            float4_at(y[0]) = float4_at(Bs[now][k][col]);
            float4_at(y[4]) = float4_at(Bs[now][k][col + 32]);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        if (k0 + BK >= K)
            break;
        now ^= 1;
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
