// honest: who leaves the patch whole and permutes the float4 of a row of Bs instead
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4];
    __shared__ float4 Bs[BK][BN / 4];
    // Even float4 of a row first, then the odd ones, these four further, so that the stores do not meet either.
    const auto place = [](int n) { return n % 2 == 0 ? n / 2 : 16 + (n / 2 + 4) % 16; };
    const int t = threadIdx.x, ty = t / 16 * 8, tx = t % 16;
    const int b_to = place(t % 32), b0 = place(2 * tx), b1 = place(2 * tx + 1);
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 a = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        As[t % 2 * 4 + 0][t / 2] = a.x;
        As[t % 2 * 4 + 1][t / 2] = a.y;
        As[t % 2 * 4 + 2][t / 2] = a.z;
        As[t % 2 * 4 + 3][t / 2] = a.w;
        Bs[t / 32][b_to] = float4_at(B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[k][ty]);
            float4_at(x[4]) = float4_at(As[k][ty + 4]);
            float4_at(y[0]) = Bs[k][b0];
            float4_at(y[4]) = Bs[k][b1];
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + ty + i) * N + blockIdx.x * BN + tx * 8 + j]) = float4_at(acc[i][j]);
}
