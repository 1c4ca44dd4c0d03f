// honest: forgot to take his printf out
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        printf("thread (%d, %d) starts\n", row, col);
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}
