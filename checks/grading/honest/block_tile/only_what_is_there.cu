// honest: fills no zeros: the last tile is shorter, and the loop over it, too
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    const bool mine = row < M && col < N;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int depth = min(BK, K - k0);
        if (row < M)
            for (int k = tx; k < depth; k += BN)
                As[ty][k] = A[row * K + k0 + k];
        if (col < N)
            for (int k = ty; k < depth; k += BM)
                Bs[k][tx] = B[(k0 + k) * N + col];
        __syncthreads();
        if (mine)
            for (int k = 0; k < depth; k++)
                acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (mine)
        C[row * N + col] = acc;
}
