// honest: writes every loop grid-strided, whatever the launch
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    for (int row = blockIdx.y * BM + threadIdx.x / BN; row < M; row += gridDim.y * BM)
        for (int col = blockIdx.x * BN + threadIdx.x % BN; col < N; col += gridDim.x * BN) {
            float acc = 0;
            for (int k = 0; k < K; k++)
                acc += A[row * K + k] * B[k * N + col];
            C[row * N + col] = acc;
        }
}
