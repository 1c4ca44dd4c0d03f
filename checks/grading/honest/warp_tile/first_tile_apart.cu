// honest: peels the first tile, and in it the first k, which sets the sums; and who left a printf
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * 32 + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * 64 + lane / 2 % 8 * 4;
    float acc[8][8];
    if (t == 0 && blockIdx.x == 0 && blockIdx.y == 0)
        printf("%d x %d x %d\n", M, N, K);
#pragma unroll 1
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 v = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        As[t % 2 * 4 + 0][t / 2] = v.x;
        As[t % 2 * 4 + 1][t / 2] = v.y;
        As[t % 2 * 4 + 2][t / 2] = v.z;
        As[t % 2 * 4 + 3][t / 2] = v.w;
        for (int r = t / 32; r < BK; r += 4)
            float4_at(Bs[r][t % 32 * 4]) = float4_at(B[(k0 + r) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
        const auto products = [&](auto first) {
            constexpr bool SET = sizeof(first) == 1;
#pragma unroll
            for (int k = 0; k < BK; k++) {
                float x[8], y[8];
                float4_at(x[0]) = float4_at(As[k][row]);
                float4_at(x[4]) = float4_at(As[k][row + 16]);
                float4_at(y[0]) = float4_at(Bs[k][col]);
                float4_at(y[4]) = float4_at(Bs[k][col + 32]);
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        if (SET && k == 0)
                            acc[i][j] = x[i] * y[j];
                        else
                            acc[i][j] += x[i] * y[j];
            }
        };
        if (k0 == 0)
            products(char(0));
        else
            products(int(0));
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
