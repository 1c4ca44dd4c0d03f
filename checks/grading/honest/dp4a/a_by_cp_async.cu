// honest: copies words of A by cp.async to where they are wanted, and dp4a with char4
#include <cuda_pipeline.h>
#include "int4.cuh"

struct Tile {
    int a[BK / 4][BM + 4];
    int b[BK / 4][BN];
};


extern "C" __global__ void __launch_bounds__(128)
gemm(const signed char *A, const signed char *B, int *C, int M, int N, int K)
{
    __shared__ __align__(16) Tile tiles[2];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int y = warp / 2 * 64 + (lane / 8 * 2 + lane % 2) * 4, x = warp % 2 * 32 + lane / 2 % 4 * 4;
    int rows[4];
    int sum[8][8] = {};
    auto fetch = [&](Tile &to, int k0) {
        for (int i = 0; i < 8; i++) // eight lanes have the eight words of a row
            __pipeline_memcpy_async(&to.a[t % 8][t / 8 + i * 16], &A[(row0 + t / 8 + i * 16) * K + k0 + t % 8 * 4], 4);
        __pipeline_commit();
        for (int i = 0; i < 4; i++)
            rows[i] = int_at(B[(k0 + t / 16 * 4 + i) * N + col0 + t % 16 * 4]);
    };
    auto finish = [&](Tile &to) {
        int4 turned;
        int *words = &turned.x;
        for (int c = 0; c < 4; c++) {
            const int low = __byte_perm(rows[0], rows[1], (4 + c) << 4 | c), high = __byte_perm(rows[2], rows[3], (4 + c) << 4 | c);
            words[c] = __byte_perm(low, high, 0x5410);
        }
        int4_at(to.b[t / 16][t % 16 * 4]) = turned;
        __pipeline_wait_prior(0);
    };
    fetch(tiles[0], 0);
    finish(tiles[0]);
    __syncthreads();
    for (int k0 = 0, s = 0; k0 < K; k0 += BK, s = 1 - s) {
        if (k0 + BK < K)
            fetch(tiles[1 - s], k0 + BK);
#pragma unroll
        for (int w = 0; w < BK / 4; w++) {
            int a[8], b[8];
            for (int h = 0; h < 8; h += 4) {
                int4_at(a[h]) = int4_at(tiles[s].a[w][y + h * 8]);
                int4_at(b[h]) = int4_at(tiles[s].b[w][x + h * 4]);
            }
            for (int n = 0; n < 64; n++)
                sum[n / 8][n % 8] = __dp4a(*reinterpret_cast<char4 *>(&a[n / 8]), *reinterpret_cast<char4 *>(&b[n % 8]), sum[n / 8][n % 8]);
        }
        if (k0 + BK < K)
            finish(tiles[1 - s]);
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            int4_at(C[(row0 + y + i / 4 * 32 + i % 4) * N + col0 + x + j * 4]) = int4_at(sum[i][j]);
}
