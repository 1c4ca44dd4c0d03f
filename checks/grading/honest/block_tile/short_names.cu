// honest: writes the lesson's kernel with short names and plain indices
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    const int r = threadIdx.x / BN, c = threadIdx.x % BN;
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = 0; k < BK; k += BN)
            As[r][k + c] = row < M && k0 + k + c < K ? A[row * K + k0 + k + c] : 0.0f;
        for (int k = 0; k < BK; k += BM)
            Bs[k + r][c] = k0 + k + r < K && col < N ? B[(k0 + k + r) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc += As[r][k] * Bs[k][c];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
