// honest: swizzles instead of padding: the row of A is XORed with a bit of k
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM];
    __shared__ __align__(16) float Bs[BK][BN];
    const auto swizzle = [](int k, int row) { return row ^ (k & 4) << 2; };
    const int t = threadIdx.x, row = t / 16 * 4, col = t % 16 * 4;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 four = float4_at(a[k0]);
        const int k = t % 2 * 4;
        As[k + 0][swizzle(k + 0, t / 2)] = four.x;
        As[k + 1][swizzle(k + 1, t / 2)] = four.y;
        As[k + 2][swizzle(k + 2, t / 2)] = four.z;
        As[k + 3][swizzle(k + 3, t / 2)] = four.w;
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(b[k0 * N]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[k][swizzle(k, row)]);
            float4_at(x[4]) = float4_at(As[k][swizzle(k, row + 64)]);
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
