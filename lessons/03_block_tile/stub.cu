// Lesson 03: shared-memory tiles
// New idea: a block copies one tile of A and one of B into shared memory, then every thread reuses them.
// Before:   lesson 02, each thread reads 2*K floats from global memory. Now: 2*K/BK.
// Launch:   grid (ceil(N/BN), ceil(M/BM)), block BM*BN threads; BM = BN = BK = 32 from lesson.toml.
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which element of C is mine?
    const int thread_row = threadIdx.x / BN;
    const int thread_col = threadIdx.x % BN;
    const int row = blockIdx.y * BM + thread_row;
    const int col = blockIdx.x * BN + thread_col;

    // Walk along K, one tile at a time.
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // TODO(1): copy A[row, k0 + thread_col] into As and B[k0 + thread_row, col] into Bs; 0 outside the matrix.

        // TODO(2): wait until the whole block has finished copying.

        // TODO(3): add the BK products of my row of As and my column of Bs to acc.

        // TODO(4): wait again. Why? See "The second barrier" in README.md.
    }

    // Write my element back.
    if (row < M && col < N)
        c(row, col) = acc;
}
