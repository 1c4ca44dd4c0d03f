// honest: lets B come by cp.async of eight bytes and A through registers
#include <cuda_pipeline.h>
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const auto copy_b = [&](int to, int k0) {
#pragma unroll
        for (int r = 0; r < BK; r += 2)
            __pipeline_memcpy_async(&Bs[to][r + t / 64][t % 64 * 2], &B[(k0 + r + t / 64) * N + blockIdx.x * BN + t % 64 * 2], 8);
        __pipeline_commit();
    };
    const auto put_a = [&](int to, float4 v) {
        As[to][t % 2 * 4 + 0][t / 2] = v.x;
        As[to][t % 2 * 4 + 1][t / 2] = v.y;
        As[to][t % 2 * 4 + 2][t / 2] = v.z;
        As[to][t % 2 * 4 + 3][t / 2] = v.w;
    };
    float acc[8][8] = {};
    copy_b(0, 0);
    put_a(0, float4_at(*a));
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int k0 = 0, now = 0; k0 < K; k0 += BK, now ^= 1) {
        const bool more = k0 + BK < K;
        float4 v;
        if (more) {
            v = float4_at(a[k0 + BK]);
            copy_b(now ^ 1, k0 + BK);
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
        if (more) {
            put_a(now ^ 1, v);
            __pipeline_wait_prior(0);
            __syncthreads();
        }
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
