// honest: who multiplies for k = 0 first and adds from k = 1 on
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN + tx;
    float total[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ty; r < BM; r += BM / TM)
            As[r][tx] = row + r < M && k0 + tx < K ? A[(row + r) * K + k0 + tx] : 0.f;
        for (int r = ty; r < BK; r += BM / TM)
            Bs[r][tx] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : 0.f;
        __syncthreads();
        float part[TM];
        for (int i = 0; i < TM; i++)
            part[i] = As[ty * TM + i][0] * Bs[0][tx];
        for (int k = 1; k < BK; k++)
            for (int i = 0; i < TM; i++)
                part[i] += As[ty * TM + i][k] * Bs[k][tx];
        for (int i = 0; i < TM; i++)
            total[i] += part[i];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (row + ty * TM + i < M && col < N)
            C[(row + ty * TM + i) * N + col] = total[i];
}
