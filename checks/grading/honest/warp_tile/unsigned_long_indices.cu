// honest: works with huge matrices: 64-bit offsets, one pointer an operand, all loops counted down
#include "float4.cuh"
typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN + 4];
    const u64 lda = K, ldb = N, ldc = N, t = threadIdx.x, lane = t & 31;
    const u64 row = t / 64 * 32 + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * 64 + lane / 2 % 8 * 4;
    const float *a = A + (u64(blockIdx.y) * BM + t / 2) * lda + t % 2 * 4 + lda;
    const float *b = B + (lda + t / 32) * ldb + u64(blockIdx.x) * BN + t % 32 * 4;
    float acc[8][8] = {};
    for (u64 tile = lda / BK; tile-- > 0;) { // from the last tile to the first
        a -= BK;
        b -= BK * ldb;
        const float4 v = float4_at(*a);
        As[t % 2 * 4 + 3][t / 2] = v.w;
        As[t % 2 * 4 + 2][t / 2] = v.z;
        As[t % 2 * 4 + 1][t / 2] = v.y;
        As[t % 2 * 4 + 0][t / 2] = v.x;
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(*b);
        float4_at(Bs[t / 32 + 4][t % 32 * 4]) = float4_at(b[4 * ldb]);
        __syncthreads();
#pragma unroll
        for (int k = BK - 1; k >= 0; --k) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[k][row]);
            float4_at(x[4]) = float4_at(As[k][row + 16]);
            float4_at(y[0]) = float4_at(Bs[k][col]);
            float4_at(y[4]) = float4_at(Bs[k][col + 32]);
            for (int i = 7; i >= 0; --i)
                for (int j = 7; j >= 0; --j)
                    acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    C += (u64(blockIdx.y) * BM + row) * ldc + u64(blockIdx.x) * BN + col;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(i / 4 * 16 + i % 4) * ldc + j * 8]) = float4_at(acc[i][j]);
}
