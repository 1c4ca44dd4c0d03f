// honest: who has both operands come by cp.async, A four bytes at a time to where it is wanted, over three buffers, or two
#include <cuda_pipeline.h>
#include "float4.cuh"

constexpr int T = (BM / WM) * (BN / WN) * 32, D = BK;
constexpr int S = 3 * D * (BM + 4 + BN) * 4 > 48 * 1024 ? 2 : 3; // as many as fit beside each other

extern "C" __global__ void __launch_bounds__(T)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float as[S][D][BM + 4];
    __shared__ __align__(16) float bs[S][D][BN];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, L = WN / TN;
    const int y = warp / (BN / WN) * WM + (lane / (2 * L) * 2 + (lane & 1)) * 4, x = warp % (BN / WN) * WN + lane / 2 % L * 4;
    const float *a = A + blockIdx.y * BM * K, *b = B + blockIdx.x * BN;
    float sum[TM][TN] = {};
    const auto bring = [&](int s, int k0) {
        if (k0 < K) {
            for (int i = threadIdx.x; i < BM * D; i += T)
                __pipeline_memcpy_async(&as[s][i % D][i / D], a + i / D * K + k0 + i % D, 4);
            for (int i = threadIdx.x; i < D * BN / 4; i += T)
                __pipeline_memcpy_async(&bs[s][i / (BN / 4)][i % (BN / 4) * 4], b + (k0 + i / (BN / 4)) * N + i % (BN / 4) * 4, 16);
        }
        __pipeline_commit();
    };
    bring(0, 0);
    if (S == 3)
        bring(1, D);
    for (int k0 = 0, s = 0; k0 < K; k0 += D, s = (s + 1) % S) {
        __pipeline_wait_prior(S - 2);
        __syncthreads();
        bring((s + S - 1) % S, k0 + (S - 1) * D);
#pragma unroll
        for (int k = 0; k < D; k++) {
            float p[TM], q[TN];
            for (int i = 0; i < TM; i += 4)
                float4_at(p[i]) = float4_at(as[s][k][y + i / 4 * (WM * 4 / TM)]);
            for (int j = 0; j < TN; j += 4)
                float4_at(q[j]) = float4_at(bs[s][k][x + j / 4 * (WN * 4 / TN)]);
            for (int j = 0; j < TN; j += 2) // two columns at a time, there and back
                for (int n = 0; n < 2 * TM; n++) {
                    const int i = j % 4 ? TM - 1 - n / 2 : n / 2;
                    sum[i][j + (n / 2 + n) % 2] += p[i] * q[j + (n / 2 + n) % 2];
                }
        }
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            float4_at(C[(blockIdx.y * BM + y + i / 4 * (WM * 4 / TM) + i % 4) * N + blockIdx.x * BN + x + j / 4 * (WN * 4 / TN)]) = float4_at(sum[i][j]);
}
