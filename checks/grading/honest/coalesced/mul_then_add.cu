// honest: compares bit for bit with a CPU without FMA
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * BM + threadIdx.x / BN;
    int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row < M && col < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) {
            float product = __fmul_rn(A[row * K + k], B[k * N + col]);
            sum = __fadd_rn(sum, product);
        }
        C[row * N + col] = sum;
    }
}
