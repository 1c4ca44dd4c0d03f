// honest: sums in double: 64 sums are 128 registers, and 255 there are
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN), 1)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM, thread_col = threadIdx.x % (BN / TN) * TN;
    double acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const auto a_tile = a.tile(block_row, k0, BM, BK);
        const auto b_tile = b.tile(k0, block_col, BK, BN);
        for (int first = 0; first < BM * BK; first += 256) {
            const int i = first + threadIdx.x;
            As[i / BK][i % BK] = a_tile(i);
            Bs[i / BN][i % BN] = b_tile(i);
        }
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < BK; k++) {
            double a_frag[TM], b_frag[TN];
            for (int i = 0; i < TM; i++)
                a_frag[i] = As[thread_row + i][k];
            for (int j = 0; j < TN; j++)
                b_frag[j] = Bs[k][thread_col + j];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            C[(block_row + thread_row + i) * N + block_col + thread_col + j] = static_cast<float>(acc[i][j]);
}
