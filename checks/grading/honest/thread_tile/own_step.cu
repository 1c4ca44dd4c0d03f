// honest: copies with the loop that comes to mind first: from threadIdx.x in steps of blockDim.x
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int r = threadIdx.x / (BN / TN) * TM, c = threadIdx.x % (BN / TN) * TN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += blockDim.x)
            As[i / BK][i % BK] = A[(blockIdx.y * BM + i / BK) * K + k0 + i % BK];
        for (int i = threadIdx.x; i < BK * BN; i += blockDim.x)
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + blockIdx.x * BN + i % BN];
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            float b[TN];
            for (int j = 0; j < TN; j++)
                b[j] = Bs[k][c + j];
            for (int i = 0; i < TM; i++) {
                const float a = As[r + i][k];
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a * b[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j] = acc[i][j];
}
