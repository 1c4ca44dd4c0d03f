// honest: a numerical analyst without doubles: Kahan's compensated sum
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * BM + threadIdx.x % BM;
    int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row < M && col < N) {
        float sum = 0.0f, c = 0.0f;
        for (int k = 0; k < K; k++) {
            float y = fmaf(A[row * K + k], B[k * N + col], -c);
            float t = sum + y;
            c = (t - sum) - y;
            sum = t;
        }
        C[row * N + col] = sum;
    }
}
