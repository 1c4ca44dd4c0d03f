// Lesson 02: coalesced
// New idea: neighbouring lanes of a warp read neighbouring addresses, so that a request touches few sectors.
// Before:   lesson 01, the lanes of a warp own elements below each other: a load of A touches 32 sectors.
// Launch:   grid (ceil(N/BN), ceil(M/BM)), block BM*BN threads; BM = BN = 32 from lesson.toml.
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which element of C is mine?
    int thread_row = 0;
    int thread_col = 0;
    // TODO(1): which element of the block's tile should I own, so that my warp's requests touch few sectors?
    const int row = blockIdx.y * BM + thread_row;
    const int col = blockIdx.x * BN + thread_col;

    // Walk along K.
    float acc = 0.0f;
    if (row < M && col < N)
        for (int k = 0; k < K; k++)
            acc += a(row, k) * b(k, col);

    // Write my element back.
    if (row < M && col < N)
        c(row, col) = acc;
}
