// Lesson 01: naive
// New idea: one thread computes one element of C.
// Launch:   grid (ceil(N/BN), ceil(M/BM)), block BM*BN threads; BM = BN = 32 from lesson.toml.
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which element of C is mine? Thread 0 takes the block's first row, thread 1 the second, and so on.
    const int thread_row = threadIdx.x % BM;
    const int thread_col = threadIdx.x / BM;
    const int row = blockIdx.y * BM + thread_row;
    const int col = blockIdx.x * BN + thread_col;

    // Walk along K.
    float acc = 0.0f;
    // (1) Row `row` of A times column `col` of B. Threads outside C have no element.
    if (row < M && col < N)
        for (int k = 0; k < K; k++)
            acc += a(row, k) * b(k, col);

    // Write my element back.
    // (2) Only threads inside C store.
    if (row < M && col < N)
        c(row, col) = acc;
}
