// honest: learned on Fermi: volatile shared tiles, fragments, no vectors
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    volatile __shared__ float As[BM][BK], Bs[BK][BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int n = 0; n < 4; n++) {
            const int i = n * 256 + t;
            As[i / BK][i % BK] = A[(blockIdx.y * BM + i / BK) * K + k0 + i % BK];
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + blockIdx.x * BN + i % BN];
        }
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            float a[8], b[8];
            for (int i = 0; i < 8; i++)
                a[i] = As[r + i][k];
            for (int j = 0; j < 8; j++)
                b[j] = Bs[k][c + j];
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j] = acc[i][j];
}
