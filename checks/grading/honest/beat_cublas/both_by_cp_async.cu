// honest: has both operands come by cp.async, A four bytes at a time to where it is wanted
#include <cuda_pipeline.h>

#include "workers.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const float *A, const float *B, float *C, float *P, int M, int N, int K)
{
    extern __shared__ __align__(16) float s[];
    auto &as = *reinterpret_cast<float(*)[2][BK][BM + 4]>(s);
    auto &bs = *reinterpret_cast<float(*)[2][BK][BN]>(s + 2 * BK * (BM + 4));
    const Tiles tiles(N, K);
    const Place mine(threadIdx.x);
    const int end = tiles.begin(blockIdx.x + 1);
    int unit = tiles.begin(blockIdx.x);
    while (unit < end) {
        const Piece piece = tiles.piece(unit, end);
        unit += piece.last - piece.first;
        const float *a = A + tiles.row(piece.tile) * K, *b = B + tiles.col(piece.tile);
        float sum[TM][TN] = {};
        const auto bring = [&](int to, int k0) {
            for (int i = threadIdx.x; i < BM * BK; i += THREADS)
                __pipeline_memcpy_async(&as[to][i % BK][i / BK], a + i / BK * K + k0 + i % BK, 4);
            for (int i = threadIdx.x; i < BK * BN / 4; i += THREADS)
                __pipeline_memcpy_async(&bs[to][i / (BN / 4)][i % (BN / 4) * 4], b + (k0 + i / (BN / 4)) * N + i % (BN / 4) * 4, 16);
        };
        __syncthreads();
        bring(0, piece.first * BK);
        for (int k = piece.first; k < piece.last; k++) {
            const int now = (k - piece.first) % 2;
            __pipeline_commit();
            __pipeline_wait_prior(0);
            __syncthreads();
            if (k + 1 < piece.last)
                bring(1 - now, (k + 1) * BK);
#pragma unroll 8
            for (int e = 0; e < BK; e++) {
                float p[TM], q[TN];
                for (int i = 0; i < TM; i += 4)
                    float4_at(p[i]) = float4_at(as[now][e][mine.row(i)]);
                for (int j = 0; j < TN; j += 4)
                    float4_at(q[j]) = float4_at(bs[now][e][mine.col(j)]);
                for (int j = 0; j < TN; j++)
                    for (int i = 0; i < TM; i++)
                        sum[j % 2 ? TM - 1 - i : i][j] += p[j % 2 ? TM - 1 - i : i] * q[j];
            }
        }
        store_sums(C, P, N, tiles, piece, sum);
    }
}

extern "C" __global__ void __launch_bounds__(ADDERS) combine(float *P, float *C, int M, int N, int K)
{
    add_pieces(P, C, N, K);
}
