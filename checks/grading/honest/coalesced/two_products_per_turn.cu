// honest: takes two k per turn, and the odd one before the loop
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    float even = 0, odd = 0;
    if (K & 1)
        even = A[row * K + K - 1] * B[(K - 1) * N + col];
    for (int k = 0; k < (K & ~1); k += 2) {
        even += A[row * K + k] * B[k * N + col];
        odd += A[row * K + k + 1] * B[(k + 1) * N + col];
    }
    C[row * N + col] = even + odd;
}
