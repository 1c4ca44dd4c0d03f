// honest: a C programmer of the eighties: two pointers walk, a counter runs down, no index at all
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    unsigned row = blockIdx.y * BM + (threadIdx.x & (BM - 1));
    unsigned col = blockIdx.x * BN + (threadIdx.x >> 5);
    const float *p = A + row * K;
    const float *q = B + col;
    float sum = 0;
    int left = K;

    if (row >= M || col >= N)
        return;
    while (left--) {
        sum += *p++ * *q;
        q += N;
    }
    *(C + row * N + col) = sum;
}
