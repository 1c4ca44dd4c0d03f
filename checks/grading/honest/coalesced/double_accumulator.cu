// honest: a physicist: everything is summed in double
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * BM + threadIdx.x / BN;
    int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row < M && col < N) {
        double sum = 0;
        for (int k = 0; k < K; k++)
            sum += (double)A[row * K + k] * B[k * N + col];
        C[row * N + col] = (float)sum;
    }
}
