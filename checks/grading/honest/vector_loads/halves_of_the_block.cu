// honest: a maxas reader: the first four warps copy A, the others B, two float4 each
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
    const int thread_row = threadIdx.x / (BN / TN) * TM, thread_col = threadIdx.x % (BN / TN) * TN;
    const int half = threadIdx.x % 128;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        if (threadIdx.x < 128) {
            float4_at(As[half][0]) = float4_at(a(block_row + half, k0));
            float4_at(As[half][4]) = float4_at(a(block_row + half, k0 + 4));
        } else {
            const int r = half / 32, col = half % 32 * 4;
            float4_at(Bs[r][col]) = float4_at(b(k0 + r, block_col + col));
            float4_at(Bs[r + 4][col]) = float4_at(b(k0 + r + 4, block_col + col));
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float a_frag[TM][4], b_frag[TN];
            for (int i = 0; i < TM; i++)
                float4_at(a_frag[i][0]) = float4_at(As[thread_row + i][k]);
            for (int step = 0; step < 4; step++) {
                for (int j = 0; j < TN; j += 4)
                    float4_at(b_frag[j]) = float4_at(Bs[k + step][thread_col + j]);
                for (int i = 0; i < TM; i++)
                    for (int j = 0; j < TN; j++)
                        acc[i][j] += a_frag[i][step] * b_frag[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            float4_at(c(block_row + thread_row + i, block_col + thread_col + j)) = float4_at(acc[i][j]);
}
