// honest: copies with cp.async, 16 bytes, as he does everywhere
#include <cuda_pipeline.h>

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        __pipeline_memcpy_async(&As[t / 2][t % 2 * 4], &A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4], 16);
        __pipeline_memcpy_async(&Bs[t / 32][t % 32 * 4], &B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4], 16);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
#pragma unroll 2
        for (int k = 0; k < BK; k++) {
            float a[8], b[8];
            for (int i = 0; i < 8; i++)
                a[i] = As[r + i][k];
            for (int j = 0; j < 8; j++)
                b[j] = Bs[k][c + j];
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j] = acc[i][j];
}
