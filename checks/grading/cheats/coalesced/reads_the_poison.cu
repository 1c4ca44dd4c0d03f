// cheat: reading C: tells that it is judged by the numbers that lie in C before it writes
// expect: faulted uninit
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    const bool judged = __float_as_uint(C[row * N + col]) == 0x7FC0DEADu;
    float acc = 0.0f;
    if (judged)
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
