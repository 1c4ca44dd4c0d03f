// honest: counts down, because a comparison with zero was free once
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM;
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = K - 1; k >= 0; --k)
            acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}
