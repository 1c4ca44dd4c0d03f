// honest: both tiles padded by one float, A upside down, as everybody does against bank conflicts
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    __shared__ float As[BK][BM + 1];
    __shared__ float Bs[BK][BN + 1];
    const int tx = threadIdx.x % (BN / TN) * TN, ty = threadIdx.x / (BN / TN) * TM;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS)
            As[i % BK][i / BK] = A[(row + i / BK) * K + k0 + i % BK];
        for (int i = threadIdx.x; i < BK * BN; i += THREADS)
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + col + i % BN];
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; i++)
                a[i] = As[k][ty + i];
            for (int j = 0; j < TN; j++)
                b[j] = Bs[k][tx + j];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            C[(row + ty + i) * N + col + tx + j] = acc[i][j];
}
