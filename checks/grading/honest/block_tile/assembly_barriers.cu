// honest: a maxas reader: barriers by number in assembly
#define BAR asm volatile("bar.sync 1, %0;" ::"n"(BM * BN) : "memory")

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x >> 5, tx = threadIdx.x & 31;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    float acc = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = tx; k < BK; k += 32)
            As[ty][k] = row < M && k0 + k < K ? A[row * K + k0 + k] : 0.0f;
        for (int k = ty; k < BK; k += 32)
            Bs[k][tx] = k0 + k < K && col < N ? B[(k0 + k) * N + col] : 0.0f;
        BAR;
        for (int k = 0; k < BK; k++)
            acc = fmaf(As[ty][k], Bs[k][tx], acc);
        BAR;
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
