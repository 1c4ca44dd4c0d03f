// honest: saw that A had no conflicts: only the columns are cut in two, As stays row by row
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;
    const int t = threadIdx.x, row = t / 16 * TM, col = t % 16 * 4;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4_at(As[t / 2][t % 2 * 4]) = float4_at(a(block_row + t / 2, k0 + t % 2 * 4));
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(b(k0 + t / 32, block_col + t % 32 * 4));
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float x[TM][4], y[TN];
            for (int i = 0; i < TM; i++)
                float4_at(x[i][0]) = float4_at(As[row + i][k]);
#pragma unroll
            for (int s = 0; s < 4; s++) {
                float4_at(y[0]) = float4_at(Bs[k + s][col]);
                float4_at(y[4]) = float4_at(Bs[k + s][col + 64]);
                for (int i = 0; i < TM; i++)
                    for (int j = 0; j < TN; j++)
                        acc[i][j] += x[i][s] * y[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < 2; j++)
            float4_at(c(block_row + row + i, block_col + col + 64 * j)) = float4_at(acc[i][4 * j]);
}
