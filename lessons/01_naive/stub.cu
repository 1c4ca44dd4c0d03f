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
    // TODO(1): which K products make up my element of C? Does every thread have an element?

    // Write my element back.
    // TODO(2): where does acc go? May every thread store?
}
