// honest: copies by one running index, as many times as it takes
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    const int tid = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int r = tid / BN, c = tid % BN;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK; i += blockDim.x) {
            const int y = row0 + i / BK, x = k0 + i % BK;
            As[i] = y < M && x < K ? A[y * K + x] : 0.0f;
        }
        for (int i = tid; i < BK * BN; i += blockDim.x) {
            const int y = k0 + i / BN, x = col0 + i % BN;
            Bs[i] = y < K && x < N ? B[y * N + x] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc += As[r * BK + k] * Bs[k * BN + c];
        __syncthreads();
    }
    if (row0 + r < M && col0 + c < N)
        C[(row0 + r) * N + col0 + c] = acc;
}
