// honest: keeps multiplication and addition apart, for the CPU's bits
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN + tx;
    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ty; r < BM; r += BM / TM)
            As[r][tx] = row + r < M && k0 + tx < K ? A[(row + r) * K + k0 + tx] : 0.f;
        for (int r = ty; r < BK; r += BM / TM)
            Bs[r][tx] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : 0.f;
        __syncthreads();
        for (int k = 0; k < BK; k++)
            for (int i = 0; i < TM; i++)
                acc[i] = __fadd_rn(acc[i], __fmul_rn(As[ty * TM + i][k], Bs[k][tx]));
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (row + ty * TM + i < M && col < N)
            C[(row + ty * TM + i) * N + col] = acc[i];
}
