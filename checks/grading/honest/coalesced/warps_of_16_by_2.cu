// honest: gives a warp two rows of sixteen columns
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int t = threadIdx.x;
    const int row = blockIdx.y * BM + (t / 64) * 2 + (t % 32) / 16;
    const int col = blockIdx.x * BN + (t / 32 % 2) * 16 + t % 16;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; k++)
            acc = fmaf(A[row * K + k], B[k * N + col], acc);
        C[row * N + col] = acc;
    }
}
