// honest: starts with the first product instead of zero
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};
    const int row = blockIdx.y * BM + threadIdx.x % BM;
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row < M && col < N) {
        float acc = a(row, 0) * b(0, col);
        for (int k = 1; k < K; k++)
            acc += a(row, k) * b(k, col);
        c(row, col) = acc;
    }
}
