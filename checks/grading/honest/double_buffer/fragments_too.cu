// honest: learned from CUTLASS and maxas: tiles and fragments are both double-buffered
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128, 3)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8] = {}, x[2][8], y[2][8];
    float4 u = float4_at(*a), v = float4_at(*b), w = float4_at(b[4 * N]);
    const auto store = [&](int to) {
        As[to][t % 2 * 4 + 0][t / 2] = u.x;
        As[to][t % 2 * 4 + 1][t / 2] = u.y;
        As[to][t % 2 * 4 + 2][t / 2] = u.z;
        As[to][t % 2 * 4 + 3][t / 2] = u.w;
        float4_at(Bs[to][t / 32][t % 32 * 4]) = v;
        float4_at(Bs[to][t / 32 + 4][t % 32 * 4]) = w;
        __syncthreads();
    };
    const auto read = [&](int set, int from, int k) {
        float4_at(x[set][0]) = float4_at(As[from][k][row]);
        float4_at(x[set][4]) = float4_at(As[from][k][row + 16]);
        float4_at(y[set][0]) = float4_at(Bs[from][k][col]);
        float4_at(y[set][4]) = float4_at(Bs[from][k][col + 32]);
    };
    store(0);
    read(0, 0, 0);
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const bool more = k0 + BK < K;
        if (more) {
            u = float4_at(a[k0 + BK]);
            v = float4_at(b[(k0 + BK) * N]);
            w = float4_at(b[(k0 + BK + 4) * N]);
        }
#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k + 1 < BK) {
                read((k + 1) % 2, now, k + 1);
            } else if (more) {
                store(now ^ 1);
                read(0, now ^ 1, 0);
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[k % 2][i] * y[k % 2][j];
        }
        now ^= 1;
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
