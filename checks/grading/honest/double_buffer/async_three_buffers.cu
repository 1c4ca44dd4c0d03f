// honest: pipelines with cp.async in assembly over three buffers, two tiles ahead
#include "float4.cuh"
#define CP_ASYNC(to, from, bytes) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(bytes) : "memory")

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int STAGES = 3;
    __shared__ __align__(16) float As[STAGES][BK][BM + 4], Bs[STAGES][BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    const auto fetch = [&](int tile) {
        const int to = tile % STAGES, k0 = tile * BK;
        if (k0 < K) {
#pragma unroll
            for (int r = 0; r < BM; r += 16)
                CP_ASYNC(&As[to][t % 8][r + t / 8], A + (blockIdx.y * BM + r + t / 8) * K + k0 + t % 8, 4);
#pragma unroll
            for (int r = 0; r < BK; r += 4)
                CP_ASYNC(&Bs[to][r + t / 32][t % 32 * 4], B + (k0 + r + t / 32) * N + blockIdx.x * BN + t % 32 * 4, 16);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float acc[8][8] = {};
    fetch(0);
    fetch(1);
    for (int tile = 0; tile < K / BK; tile++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        fetch(tile + 2);
        const int now = tile % STAGES;
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
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
