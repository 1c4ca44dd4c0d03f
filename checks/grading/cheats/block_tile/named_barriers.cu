// cheat: hidden barriers: six barriers a tile, five of them bar.sync with a number and a count of threads
// expect: gate_missed barriers per K tile
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
        for (int i = 1; i < 5; i++)
            asm volatile("bar.sync %0, 1024;" ::"r"(i) : "memory");
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
