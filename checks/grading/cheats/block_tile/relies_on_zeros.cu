// cheat: uninitialised memory: leaves what is outside of the matrix in shared memory as it was, hoping for zeros
// expect: faulted in line or wrong_answer wrong at
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    const int r = threadIdx.x / BN, c = threadIdx.x % BN;
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = 0; k < BK; k += BN)
            if (row < M && k0 + k + c < K)
                As[r][k + c] = A[row * K + k0 + k + c];
        for (int k = 0; k < BK; k += BM)
            if (k0 + k + r < K && col < N)
                Bs[k + r][c] = B[(k0 + k + r) * N + col];
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc += As[r][k] * Bs[k][c];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
