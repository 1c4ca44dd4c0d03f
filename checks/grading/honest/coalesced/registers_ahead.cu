// honest: fetches the next pair before using this one, already here
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    float a = A[row * K], b = B[col];
    for (int k = 1; k < K; k++) {
        const float a_next = A[row * K + k];
        const float b_next = B[k * N + col];
        acc += a * b;
        a = a_next;
        b = b_next;
    }
    acc += a * b;
    C[row * N + col] = acc;
}
