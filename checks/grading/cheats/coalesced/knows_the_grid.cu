// cheat: known shape: tells the counting shape by its grid of 4 x 4 blocks
// expect: gate_missed sectors_read
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const bool counted = gridDim.x * gridDim.y == 16;
    const int row = blockIdx.y * BM + (counted ? threadIdx.x / BN : threadIdx.x % BM);
    const int col = blockIdx.x * BN + (counted ? threadIdx.x % BN : threadIdx.x / BM);
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
