// cheat: names: a kernel called gemm in a namespace, beside the one that is launched
// expect: gate_missed sectors_read
namespace right {
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    for (int k = 0; k < K && row < M && col < N; k++)
        acc += A[row * K + k] * B[k * N + col];
    if (row < M && col < N)
        C[row * N + col] = acc;
}
} // namespace right

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM;
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
