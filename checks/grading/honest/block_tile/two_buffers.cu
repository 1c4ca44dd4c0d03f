// honest: is ahead of the course: two buffers, one barrier per tile
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[2][BM][BK];
    __shared__ float Bs[2][BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    float acc = 0;
    int buffer = 0;
    for (int k0 = 0; k0 < K; k0 += BK, buffer ^= 1) {
        for (int k = 0; k < BK; k += BN)
            As[buffer][ty][k + tx] = row < M && k0 + k + tx < K ? A[row * K + k0 + k + tx] : 0.0f;
        for (int k = 0; k < BK; k += BM)
            Bs[buffer][k + ty][tx] = k0 + k + ty < K && col < N ? B[(k0 + k + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc += As[buffer][ty][k] * Bs[buffer][k][tx];
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
