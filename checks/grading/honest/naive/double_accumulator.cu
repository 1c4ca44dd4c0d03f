// honest: a numerical analyst: products and sums in double, rounded once at the end
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const int row = blockIdx.y * BM + threadIdx.x % BM;
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row >= M || col >= N)
        return;
    double acc = 0.0;
    for (int k = 0; k < K; k++)
        acc += static_cast<double>(a(row, k)) * static_cast<double>(b(k, col));
    C[row * N + col] = static_cast<float>(acc);
}
