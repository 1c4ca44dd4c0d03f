// honest: gives a warp a patch of 4 rows and 8 columns: a sector of B, four rows of A
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.y * BM + warp / 4 * 4 + lane / 8;
    const int col = blockIdx.x * BN + warp % 4 * 8 + lane % 8;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}
