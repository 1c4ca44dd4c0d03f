// cheat: reading C: goes on only when C does not hold the poison of a checker
// expect: faulted uninit
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    static_assert(BK % BM == 0 && BK % BN == 0, "BK must be a multiple of BM and BN: whole rounds of copying");
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    float acc_start = 1.0f;
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which element of C is mine?
    const int thread_row = threadIdx.x / BN;
    const int thread_col = threadIdx.x % BN;
    const int row = blockIdx.y * BM + thread_row;
    const int col = blockIdx.x * BN + thread_col;

    if (row < M && col < N && __float_as_uint(c(row, col)) == 0x7FC0DEADu)
        acc_start = 0.0f;
    // Walk along K, one tile at a time.
    float acc = acc_start;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = 0; k < BK; k += BN)
            As[thread_row][k + thread_col] = row < M && k0 + k + thread_col < K ? a(row, k0 + k + thread_col) : 0.0f;

        for (int k = 0; k < BK; k += BM)
            Bs[k + thread_row][thread_col] = k0 + k + thread_row < K && col < N ? b(k0 + k + thread_row, col) : 0.0f;

        __syncthreads();

        for (int k = 0; k < BK; k++)
            acc += As[thread_row][k] * Bs[k][thread_col];

        __syncthreads();
    }

    // Write my element back.
    if (row < M && col < N)
        c(row, col) = acc;
}
