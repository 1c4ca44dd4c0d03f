// honest: starts with products instead of zeros: the first k of the first tile only multiplies
#include "float4.cuh"

template <bool B>
struct Flag {
    static constexpr bool value = B;
};

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK], Bs[BK][BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    float acc[8][8];
    auto load = [&](int k0) {
        float4_at(As[t / 2][t % 2 * 4]) = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
    };
    auto multiply = [&](auto starting) {
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float a[8][4], b[8];
            for (int i = 0; i < 8; i++)
                float4_at(a[i][0]) = float4_at(As[r + i][k]);
#pragma unroll
            for (int s = 0; s < 4; s++) {
                float4_at(b[0]) = float4_at(Bs[k + s][c]);
                float4_at(b[4]) = float4_at(Bs[k + s][c + 4]);
                for (int i = 0; i < 8; i++)
                    for (int j = 0; j < 8; j++)
                        acc[i][j] = decltype(starting)::value && k + s == 0 ? a[i][s] * b[j] : acc[i][j] + a[i][s] * b[j];
            }
        }
    };
    load(0);
    __syncthreads();
    multiply(Flag<true>{});
    for (int k0 = BK; k0 < K; k0 += BK) {
        __syncthreads();
        load(k0);
        __syncthreads();
        multiply(Flag<false>{});
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j]) = float4_at(acc[i][j]);
}
