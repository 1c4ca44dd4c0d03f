// honest: keeps A transposed in shared memory, with a column of padding against conflicts
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float At[BK][BM + 1];
    __shared__ float Bs[BK][BN + 1];
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const int y = threadIdx.x / 32, x = threadIdx.x % 32;
    const int row = blockIdx.y * BM + y, col = blockIdx.x * BN + x;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = 0; k < BK; k += 32) {
            At[k + x][y] = row < M && k0 + k + x < K ? a(row, k0 + k + x) : 0.0f;
            Bs[k + y][x] = k0 + k + y < K && col < N ? b(k0 + k + y, col) : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc += At[k][y] * Bs[k][x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
