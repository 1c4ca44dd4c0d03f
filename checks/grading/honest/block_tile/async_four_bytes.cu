// honest: has read about cp.async and copies with __pipeline_memcpy_async, four bytes at a time
#include <cuda_pipeline.h>

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = tx; k < BK; k += BN) {
            if (row < M && k0 + k < K)
                __pipeline_memcpy_async(&As[ty][k], &A[row * K + k0 + k], sizeof(float));
            else
                As[ty][k] = 0.0f;
        }
        for (int k = ty; k < BK; k += BM) {
            if (k0 + k < K && col < N)
                __pipeline_memcpy_async(&Bs[k][tx], &B[(k0 + k) * N + col], sizeof(float));
            else
                Bs[k][tx] = 0.0f;
        }
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
