// honest: a template over TM with a fold expression, int64 indices, one flat array, the guard as a mask
#include <cstdint>
#include <utility>
template <int... I>
__device__ void add_column(float (&acc)[sizeof...(I)], const float *a, float b, std::integer_sequence<int, I...>)
{
    ((acc[I] = fmaf(a[I * BK], b, acc[I])), ...);
}
extern "C" __global__ void __launch_bounds__((BM / TM) * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int T = BM / TM * BN;
    __shared__ float tiles[BM * BK + BK * BN];
    float *as = tiles, *bs = tiles + BM * BK;
    const int64_t m0 = (int64_t)blockIdx.y * BM, n0 = (int64_t)blockIdx.x * BN;
    const int ty = threadIdx.x / BN * TM, tx = threadIdx.x % BN;
    float acc[TM] = {};
    for (int64_t k0 = 0; k0 < K; k0 += BK, __syncthreads()) {
        for (int e = threadIdx.x; e < BM * BK; e += T) {
            const int64_t r = m0 + e / BK, k = k0 + e % BK;
            as[e] = (r < M) & (k < K) ? A[r * K + k] : 0.f;
        }
        for (int e = threadIdx.x; e < BK * BN; e += T) {
            const int64_t k = k0 + e / BN, q = n0 + e % BN;
            bs[e] = (k < K) & (q < N) ? B[k * N + q] : 0.f;
        }
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < BK; k++)
            add_column(acc, as + ty * BK + k, bs[k * BN + tx], std::make_integer_sequence<int, TM>{});
    }
    const unsigned mine = n0 + tx < N ? (m0 + ty + TM <= M ? (1u << TM) - 1 : m0 + ty < M ? (1u << (M - m0 - ty)) - 1 : 0u) : 0u;
#pragma unroll
    for (int i = 0; i < TM; i++)
        if (mine >> i & 1) C[(m0 + ty + i) * N + n0 + tx] = acc[i];
}
