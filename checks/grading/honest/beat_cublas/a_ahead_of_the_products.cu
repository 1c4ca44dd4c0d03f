// honest: writes the loop by hand: pointers that move, B by cp.async in assembly, A asked for behind the barrier
#include "workers.cuh"

__device__ __forceinline__ void copy16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, float *__restrict__ P, int M, int N, int K)
{
    extern __shared__ __align__(16) float s[];
    float *sa = s, *sb = s + 2 * BK * (BM + 4);
    const Tiles tiles(N, K);
    const Place at(threadIdx.x);
    const int t = threadIdx.x, r = t / 2 % (BM / 4) * 4, d = t / 2 / (BM / 4) * 8 + t % 2 * 4;
    constexpr int PASS = THREADS / 2 / (BM / 4) * 8;
    const int end = tiles.begin(blockIdx.x + 1);
    for (int unit = tiles.begin(blockIdx.x); unit < end;) {
        const Piece piece = tiles.piece(unit, end);
        const int count = piece.last - piece.first;
        unit += count;
        const float *a = A + (tiles.row(piece.tile) + r) * K + piece.first * BK + d;
        const float *b = B + (piece.first * BK + t / 16) * N + tiles.col(piece.tile) + t % 16 * 4;
        float4 hold[BK / PASS][4];
        float c[TM][TN] = {};
        const auto begin = [&](int which) {
#pragma unroll
            for (int i = 0; i < BK; i += THREADS / 16) {
#pragma unroll
                for (int j = 0; j < BN; j += 64)
                    copy16(sb + (which * BK + t / 16 + i) * BN + t % 16 * 4 + j, b + j);
                b += THREADS / 16 * N;
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
            for (int i = 0; i < BK / PASS; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    hold[i][e] = *(const float4 *)(a + e * K + i * PASS);
            a += BK;
        };
        const auto finish = [&](int which) {
#pragma unroll
            for (int i = 0; i < BK / PASS; i++) {
                float4 *to = (float4 *)(sa + (which * BK + d + i * PASS) * (BM + 4) + r);
                to[0] = make_float4(hold[i][0].x, hold[i][1].x, hold[i][2].x, hold[i][3].x);
                to[(BM + 4) / 4] = make_float4(hold[i][0].y, hold[i][1].y, hold[i][2].y, hold[i][3].y);
                to[(BM + 4) / 2] = make_float4(hold[i][0].z, hold[i][1].z, hold[i][2].z, hold[i][3].z);
                to[(BM + 4) / 4 * 3] = make_float4(hold[i][0].w, hold[i][1].w, hold[i][2].w, hold[i][3].w);
            }
        };
        __syncthreads();
        begin(0);
        finish(0);
        for (int n = 0; n < count; n++) {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
            __syncthreads();
            if (n + 1 < count)
                begin((n + 1) % 2);
            const float *pa = sa + n % 2 * BK * (BM + 4) + at.row(0), *pb = sb + n % 2 * BK * BN + at.col(0);
#pragma unroll 4
            for (int k = 0; k < BK; k++) {
                float x[TM], y[TN];
                for (int i = 0; i < TM; i += 4)
                    *(float4 *)&x[i] = *(const float4 *)(pa + k * (BM + 4) + at.row(i) - at.row(0));
                for (int j = 0; j < TN; j += 4)
                    *(float4 *)&y[j] = *(const float4 *)(pb + k * BN + at.col(j) - at.col(0));
                for (int j = 0; j < TN; j++)
                    for (int i = 0; i < TM; i++)
                        c[j % 2 ? TM - 1 - i : i][j] = fmaf(x[j % 2 ? TM - 1 - i : i], y[j], c[j % 2 ? TM - 1 - i : i][j]);
            }
            if (n + 1 < count)
                finish((n + 1) % 2);
        }
        store_sums(C, P, N, tiles, piece, c);
    }
}

extern "C" __global__ void __launch_bounds__(ADDERS) combine(float *P, float *C, int M, int N, int K)
{
    add_pieces(P, C, N, K);
}
