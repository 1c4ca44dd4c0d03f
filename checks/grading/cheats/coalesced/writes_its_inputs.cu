// cheat: out of bounds: leaves zeros in B when it is done
// expect: faulted in line
extern "C" __global__ void gemm(const float *A, float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
    if (row == M - 1 && blockIdx.y == gridDim.y - 1 && gridDim.y == 1)
        B[col] = 0.0f;
}
