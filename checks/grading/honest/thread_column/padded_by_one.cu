// honest: A upside down in shared memory, and padded by one float so that its stores meet no bank conflicts
extern "C" __global__ void __launch_bounds__((BM / TM) * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int ROWS = BM / TM;
    __shared__ float As[BK][BM + 1];
    __shared__ float Bs[BK][BN];
    const int x = threadIdx.x % BN, y = threadIdx.x / BN;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN + x;
    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = y; r < BM; r += ROWS)
            As[x][r] = row + r < M && k0 + x < K ? A[(row + r) * K + k0 + x] : 0.0f;
        for (int r = y; r < BK; r += ROWS)
            Bs[r][x] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < BK; k++)
            for (int i = 0; i < TM; i++)
                acc[i] += As[k][y * TM + i] * Bs[k][x];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (row + y * TM + i < M && col < N)
            C[(row + y * TM + i) * N + col] = acc[i];
}
