// honest: learned from CUTLASS's epilogue: sums go through shared memory, so that rows of C leave whole
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float pool[16 * 128];
    float(*As)[BK] = reinterpret_cast<float(*)[BK]>(pool);
    float(*Bs)[BN] = reinterpret_cast<float(*)[BN]>(pool + BM * BK);
    const int t = threadIdx.x, ty = t / 16, tx = t % 16;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4_at(As[t / 2][t % 2 * 4]) = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float a[8][4];
            for (int i = 0; i < 8; i++)
                float4_at(a[i][0]) = float4_at(As[ty * 8 + i][k]);
            for (int s = 0; s < 4; s++) {
                float b[8];
                float4_at(b[0]) = float4_at(Bs[k + s][tx * 8]);
                float4_at(b[4]) = float4_at(Bs[k + s][tx * 8 + 4]);
                for (int i = 0; i < 8; i++)
                    for (int j = 0; j < 8; j++)
                        acc[i][j] += a[i][s] * b[j];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++) { // row i of every patch: 16 rows of C
        float4_at(pool[ty * 128 + tx * 8]) = float4_at(acc[i][0]);
        float4_at(pool[ty * 128 + tx * 8 + 4]) = float4_at(acc[i][4]);
        __syncthreads();
        for (int n = t; n < 16 * 32; n += 256)
            float4_at(C[(blockIdx.y * BM + n / 32 * 8 + i) * N + blockIdx.x * BN + n % 32 * 4]) = float4_at(pool[n * 4]);
        __syncthreads();
    }
}
