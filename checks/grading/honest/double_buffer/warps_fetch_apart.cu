// honest: lets two warps fetch A and four quarters of B come from all, and bars with an asm barrier
// refused: 'A branch around the fetch' (Pitfalls): the compiler moves the loads behind the products
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    const bool brings_a = t < 64;
    const float *a = A + (blockIdx.y * BM + t % 64) * K;
    const float *b = B + t / 32 * 2 * N + blockIdx.x * BN + lane * 4;
    float acc[8][8] = {};
    float4 a0, a1, b0, b1;
    const auto fetch = [&](int k0) {
        if (brings_a) {
            a0 = float4_at(a[k0]);
            a1 = float4_at(a[k0 + 4]);
        }
        b0 = float4_at(b[k0 * N]);
        b1 = float4_at(b[(k0 + 1) * N]);
    };
    const auto store = [&](int to) {
        if (brings_a) {
            As[to][0][t] = a0.x, As[to][1][t] = a0.y, As[to][2][t] = a0.z, As[to][3][t] = a0.w;
            As[to][4][t] = a1.x, As[to][5][t] = a1.y, As[to][6][t] = a1.z, As[to][7][t] = a1.w;
        }
        float4_at(Bs[to][t / 32 * 2][lane * 4]) = b0;
        float4_at(Bs[to][t / 32 * 2 + 1][lane * 4]) = b1;
        asm volatile("bar.sync 2, 128;" ::: "memory");
    };
    fetch(0);
    store(0);
    for (int k0 = BK, now = 0; k0 <= K; k0 += BK, now = 1 - now) {
        if (k0 < K)
            fetch(k0);
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
        if (k0 < K)
            store(1 - now);
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
