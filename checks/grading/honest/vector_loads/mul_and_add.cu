// honest: keeps multiplications and additions apart, four floats at a time
#include "float4.cuh"

__device__ __forceinline__ void mad4(float4 &c, float a, const float4 &b)
{
    c.x = __fadd_rn(c.x, __fmul_rn(a, b.x));
    c.y = __fadd_rn(c.y, __fmul_rn(a, b.y));
    c.z = __fadd_rn(c.z, __fmul_rn(a, b.z));
    c.w = __fadd_rn(c.w, __fmul_rn(a, b.w));
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK], Bs[BK][BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    float4 acc[8][2] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4_at(As[t / 2][t % 2 * 4]) = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float4 a[8];
            for (int i = 0; i < 8; i++)
                a[i] = float4_at(As[r + i][k]);
            for (int s = 0; s < 4; s++) {
                const float4 b0 = float4_at(Bs[k + s][c]), b1 = float4_at(Bs[k + s][c + 4]);
                for (int i = 0; i < 8; i++) {
                    const float x = s == 0 ? a[i].x : s == 1 ? a[i].y : s == 2 ? a[i].z : a[i].w;
                    mad4(acc[i][0], x, b0);
                    mad4(acc[i][1], x, b1);
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 2; j++)
            float4_at(C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + 4 * j]) = acc[i][j];
}
