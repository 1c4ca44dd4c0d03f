// honest: walks the tiles from the last to the first, and k, too
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    float acc = 0;
    for (int tile = (K - 1) / BK; tile >= 0; tile--) {
        const int k0 = tile * BK;
        for (int k = BK - BN; k >= 0; k -= BN)
            As[ty][k + tx] = row < M && k0 + k + tx < K ? A[row * K + k0 + k + tx] : 0.0f;
        for (int k = BK - BM; k >= 0; k -= BM)
            Bs[k + ty][tx] = k0 + k + ty < K && col < N ? B[(k0 + k + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = BK; k-- > 0;)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
