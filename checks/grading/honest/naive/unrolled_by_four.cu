// honest: unrolls by hand: four products per turn into four sums, and a loop for the rest
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM;
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row >= M || col >= N)
        return;
    float s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
    int k = 0;
    for (; k + 3 < K; k += 4) {
        s0 += A[row * K + k + 0] * B[(k + 0) * N + col];
        s1 += A[row * K + k + 1] * B[(k + 1) * N + col];
        s2 += A[row * K + k + 2] * B[(k + 2) * N + col];
        s3 += A[row * K + k + 3] * B[(k + 3) * N + col];
    }
    for (; k < K; k++)
        s0 += A[row * K + k] * B[k * N + col];
    C[row * N + col] = (s0 + s1) + (s2 + s3);
}
