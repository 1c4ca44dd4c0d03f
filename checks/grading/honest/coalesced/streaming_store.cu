// honest: reads through the read-only path and stores past the cache: __ldg, __ldcg, __stcs
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; k++)
            acc += __ldg(&A[row * K + k]) * __ldcg(&B[k * N + col]);
        __stcs(&C[row * N + col], acc);
    }
}
