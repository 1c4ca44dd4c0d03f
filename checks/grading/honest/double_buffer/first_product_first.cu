// honest: lets the first k of the first tile set the sums, with two buffers
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8];
    float4 u, v, w;
    const auto fetch = [&](int k0) {
        u = float4_at(a[k0]);
        v = float4_at(b[k0 * N]);
        w = float4_at(b[(k0 + 4) * N]);
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
    const auto step = [&](int now, int k, bool set) {
        float x[8], y[8];
        float4_at(x[0]) = float4_at(As[now][k][row]);
        float4_at(x[4]) = float4_at(As[now][k][row + 16]);
        float4_at(y[0]) = float4_at(Bs[now][k][col]);
        float4_at(y[4]) = float4_at(Bs[now][k][col + 32]);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                acc[i][j] = set ? x[i] * y[j] : fmaf(x[i], y[j], acc[i][j]);
    };
    fetch(0);
    store(0);
    if (BK < K)
        fetch(BK);
    step(0, 0, true);
#pragma unroll
    for (int k = 1; k < BK; k++)
        step(0, k, false);
    int now = 1;
#pragma unroll 1
    for (int k0 = BK; k0 < K; k0 += BK, now ^= 1) {
        store(now);
        if (k0 + BK < K)
            fetch(k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; k++)
            step(now, k, false);
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
