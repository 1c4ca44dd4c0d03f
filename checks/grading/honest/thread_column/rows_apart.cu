// honest: lets a thread own every sixteenth row instead of four neighbours
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int ROWS = BM / TM;
    __shared__ float As[BM][BK], Bs[BK][BN];
    const Matrix<const float> a{A, M, K, K, 1}, b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row0 = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = 0; i < TM; i++)
            As[ty + i * ROWS][tx] = row0 + i * ROWS < M && k0 + tx < K ? a(row0 + i * ROWS, k0 + tx) : 0.f;
        for (int i = 0; i < BK / ROWS; i++)
            Bs[ty + i * ROWS][tx] = k0 + ty + i * ROWS < K && col < N ? b(k0 + ty + i * ROWS, col) : 0.f;
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            const float b_k = Bs[k][tx];
            for (int i = 0; i < TM; i++)
                acc[i] += As[ty + i * ROWS][k] * b_k;
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (row0 + i * ROWS < M && col < N)
            c(row0 + i * ROWS, col) = acc[i];
}
