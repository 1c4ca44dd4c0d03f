// honest: keeps products and sums apart, with two buffers
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    float acc[8][8] = {};
    float4 u, v, w;
    const auto fetch = [&](int k0) {
        u = __ldg((const float4 *)&A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        v = __ldg((const float4 *)&B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        w = __ldg((const float4 *)&B[(k0 + t / 32 + 4) * N + blockIdx.x * BN + t % 32 * 4]);
    };
    const auto store = [&](int to) {
        As[to][t % 2 * 4 + 0][t / 2] = u.x;
        As[to][t % 2 * 4 + 1][t / 2] = u.y;
        As[to][t % 2 * 4 + 2][t / 2] = u.z;
        As[to][t % 2 * 4 + 3][t / 2] = u.w;
        float4_at(Bs[to][t / 32][t % 32 * 4]) = v;
        float4_at(Bs[to][t / 32 + 4][t % 32 * 4]) = w;
        __syncthreads();
    };
    const auto multiply = [&](int now) {
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
                    acc[i][j] = __fadd_rn(acc[i][j], __fmul_rn(x[i], y[j]));
        }
    };
    fetch(0);
    store(0);
    int k0 = BK, now = 0;
    while (k0 < K) {
        fetch(k0);
        multiply(now);
        store(now ^= 1);
        k0 += BK;
    }
    multiply(now);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
