// honest: dislikes branches: indices are clamped with min, only the store is guarded
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM;
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    const int safe_row = min(row, M - 1);
    const int safe_col = min(col, N - 1);
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[safe_row * K + k] * B[k * N + safe_col];
    if (row < M && col < N)
        C[row * N + col] = acc;
}
