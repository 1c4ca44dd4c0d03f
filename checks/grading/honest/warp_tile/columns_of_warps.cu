// honest: numbers warps down the columns, and swizzles A instead of padding it
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK * BM];
    __shared__ __align__(16) float Bs[BK * BN];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int warp_row = warp % (BM / WM) * WM, warp_col = warp / (BM / WM) * WN;
    const int row = warp_row + (lane / 16 * 2 + lane % 2) * 4, col = warp_col + lane % 16 / 2 * 4;
    const auto as = [&](int k, int m) -> float & { return As[k * BM + (m ^ (k / 4 * 16))]; };
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 v = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        const int k = t % 2 * 4;
        as(k, t / 2) = v.x;
        as(k + 1, t / 2) = v.y;
        as(k + 2, t / 2) = v.z;
        as(k + 3, t / 2) = v.w;
        float4_at(Bs[t * 4]) = float4_at(B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        float4_at(Bs[t * 4 + 512]) = float4_at(B[(k0 + t / 32 + 4) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(as(k, row));
            float4_at(x[4]) = float4_at(as(k, row + 16));
            float4_at(y[0]) = float4_at(Bs[k * BN + col]);
            float4_at(y[4]) = float4_at(Bs[k * BN + col + 32]);
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
