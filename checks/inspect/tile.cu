template <int T, int TM>
__global__ void tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[T][8], Bs[8][T];
    const int t = threadIdx.x, cols = T / TM, tr = t / cols * TM, tc = t % cols * TM;
    float acc[TM][TM] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = t; i < T * 8; i += blockDim.x) As[i / 8][i % 8] = A[(blockIdx.y * T + i / 8) * K + k0 + i % 8];
        for (int i = t; i < T * 8; i += blockDim.x) Bs[i / T][i % T] = B[(k0 + i / T) * N + blockIdx.x * T + i % T];
        __syncthreads();
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < TM; i++) for (int j = 0; j < TM; j++) acc[i][j] += As[tr + i][k] * Bs[k][tc + j];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++) for (int j = 0; j < TM; j++) C[(blockIdx.y * T + tr + i) * N + blockIdx.x * T + tc + j] = acc[i][j];
}
