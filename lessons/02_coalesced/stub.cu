// Lesson 02: coalesced
// New idea: neighbouring lanes of a warp take neighbouring columns of C, so that one request touches few sectors.
// Before:   lesson 01, the lanes stand below each other: 32 rows of A, 32 sectors a request. Now: 4.
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
    // TODO(1): choose thread_row (0 to BM - 1) and thread_col (0 to BN - 1) so that a warp's lanes stand side by side.
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
