// cheat: ends early: waits at a named barrier for threads that never come
// expect: faulted deadlock
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
    thread_row = threadIdx.x / BN;
    thread_col = threadIdx.x % BN;
    const int row = blockIdx.y * BM + thread_row;
    const int col = blockIdx.x * BN + thread_col;

    // Walk along K.
    float acc = 0.0f;
    if (row < M && col < N)
        for (int k = 0; k < K; k++)
            acc += a(row, k) * b(k, col);

    if (threadIdx.x < 64)
        asm volatile("bar.sync 1, 96;");
    // Write my element back.
    if (row < M && col < N)
        c(row, col) = acc;
}
