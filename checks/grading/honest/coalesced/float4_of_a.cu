// honest: reads four k of A at once, since all lanes want the same ones anyway
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    const int whole = K % 4 == 0 ? K : 0;
    for (int k = 0; k < whole; k += 4) {
        const float4 four = float4_at(a(row, k));
        acc += four.x * b(k + 0, col);
        acc += four.y * b(k + 1, col);
        acc += four.z * b(k + 2, col);
        acc += four.w * b(k + 3, col);
    }
    for (int k = whole; k < K; k++)
        acc += a(row, k) * b(k, col);
    C[row * N + col] = acc;
}
