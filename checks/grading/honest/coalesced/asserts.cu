// honest: asserts what he believes
#include <cassert>

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    static_assert(BM * BN <= 1024 && BN % 32 == 0, "a warp is a row");
    assert(blockDim.x == BM * BN && blockDim.y == 1);
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    assert(row >= 0 && col >= 0);
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    assert(acc == acc);
    C[row * N + col] = acc;
}
