// honest: keeps the next tile in registers while computing this one
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    float a[BK / BN], b[BK / BM];
    auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < BK / BN; i++)
            a[i] = row < M && k0 + i * BN + tx < K ? A[row * K + k0 + i * BN + tx] : 0.0f;
#pragma unroll
        for (int i = 0; i < BK / BM; i++)
            b[i] = k0 + i * BM + ty < K && col < N ? B[(k0 + i * BM + ty) * N + col] : 0.0f;
    };
    fetch(0);
    float acc = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int i = 0; i < BK / BN; i++)
            As[ty][i * BN + tx] = a[i];
#pragma unroll
        for (int i = 0; i < BK / BM; i++)
            Bs[i * BM + ty][tx] = b[i];
        __syncthreads();
        if (k0 + BK < K)
            fetch(k0 + BK);
        for (int k = 0; k < BK; k++)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
