// honest: wants the CPU's rounding: a multiplication, then an addition, never fused
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * BM + threadIdx.x % BM;
    int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row < M && col < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum = __fadd_rn(sum, __fmul_rn(A[row * K + k], B[k * N + col]));
        C[row * N + col] = sum;
    }
}
