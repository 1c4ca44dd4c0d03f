// honest: a warp programmer: only B lies in shared memory, a row of A in the lanes of its warp
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float Bs[BK][BN];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.y * BM + warp, col = blockIdx.x * BN + lane;
    float acc = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = warp; k < BK; k += 32)
            Bs[k][lane] = k0 + k < K && col < N ? B[(k0 + k) * N + col] : 0.0f;
        __syncthreads();
        for (int k1 = 0; k1 < BK; k1 += 32) {
            const float a = row < M && k0 + k1 + lane < K ? A[row * K + k0 + k1 + lane] : 0.0f;
#pragma unroll
            for (int k = 0; k < 32; k++)
                acc += __shfl_sync(0xffffffff, a, k) * Bs[k1 + k][lane];
        }
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
