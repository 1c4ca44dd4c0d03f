// honest: keeps the multiplication and the addition apart
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    float acc = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = 0; k < BK; k += BN)
            As[ty][k + tx] = row < M && k0 + k + tx < K ? A[row * K + k0 + k + tx] : 0.0f;
        for (int k = 0; k < BK; k += BM)
            Bs[k + ty][tx] = k0 + k + ty < K && col < N ? B[(k0 + k + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc = __fadd_rn(acc, __fmul_rn(As[ty][k], Bs[k][tx]));
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
