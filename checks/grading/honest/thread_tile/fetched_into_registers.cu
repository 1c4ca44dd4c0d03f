// honest: fetches the next tile into registers while multiplying, three lessons early
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN), EACH = BM * BK / THREADS;
    static_assert(BM == BN, "one loop copies both");
    __shared__ float As[BM * BK], Bs[BK * BN];
    const Matrix<const float> a{A, M, K, K, 1}, b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};
    const int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN) * TN;
    const Matrix<float> mine = c.tile(blockIdx.y * BM + row, blockIdx.x * BN + col, TM, TN);
    float next_a[EACH], next_b[EACH];
    const auto fetch = [&](int k0) {
        const auto ta = a.tile(blockIdx.y * BM, k0, BM, BK);
        const auto tb = b.tile(k0, blockIdx.x * BN, BK, BN);
        for (int n = 0; n < EACH; n++) {
            next_a[n] = ta(n * THREADS + threadIdx.x);
            next_b[n] = tb(n * THREADS + threadIdx.x);
        }
    };
    float acc[TM][TN] = {};
    fetch(0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int n = 0; n < EACH; n++) {
            As[n * THREADS + threadIdx.x] = next_a[n];
            Bs[n * THREADS + threadIdx.x] = next_b[n];
        }
        __syncthreads();
        if (k0 + BK < K)
            fetch(k0 + BK);
#pragma unroll 2
        for (int k = 0; k < BK; k++) {
            float x[TM], y[TN];
            for (int i = 0; i < TM; i++)
                x[i] = As[(row + i) * BK + k];
            for (int j = 0; j < TN; j++)
                y[j] = Bs[k * BN + col + j];
            for (int j = 0; j < TN; j++)
                for (int i = 0; i < TM; i++)
                    acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            mine(i, j) = acc[i][j];
}
