// cheat: unsupported on purpose: launches the lesson before from inside
// expect: compile_failed line or unsupported a kernel
__global__ void inner(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    for (int k = 0; k < K && row < M && col < N; k++)
        acc += A[row * K + k] * B[k * N + col];
    if (row < M && col < N)
        C[row * N + col] = acc;
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    if (blockIdx.x + blockIdx.y + threadIdx.x == 0)
        inner<<<dim3(gridDim.x, gridDim.y), BM * BN>>>(A, B, C, M, N, K);
}
