// honest: takes fragments of 32 x 8 and two buffers with one barrier
#include <mma.h>
#include "halves.cuh"
using namespace nvcuda::wmma;

extern "C" __global__ void __launch_bounds__(128)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    __shared__ __align__(32) half sa[2][128][40];
    __shared__ __align__(32) half sb[2][32][136];
    const int t = threadIdx.x, w = t / 32, l = t % 32;
    const half *a = A + (blockIdx.y * 128 + w * 8 + l / 4 % 2 * 4 + l / 8) * K + l % 4 * 8;
    const half *b = B + t / 16 * N + blockIdx.x * 128 + t % 16 * 8;
    fragment<accumulator, 32, 8, 16, float> acc[2][8];
    for (auto &line : acc)
        for (auto &f : line)
            fill_fragment(f, 0.f);
    uint4 x[4], y[4];
    const auto in = [&](int k0) {
        for (int i = 0; i < 4; i++) {
            x[i] = half8_at(a[i * 32 * K + k0]);
            y[i] = half8_at(b[(k0 + i * 8) * N]);
        }
    };
    const auto out = [&](int s) {
        for (int i = 0; i < 4; i++) {
            half8_at(sa[s][i * 32 + w * 8 + l / 4 % 2 * 4 + l / 8][l % 4 * 8]) = x[i];
            half8_at(sb[s][t / 16 + i * 8][t % 16 * 8]) = y[i];
        }
    };
    in(0);
    out(0);
    __syncthreads();
    int s = 0;
    for (int k0 = 32; k0 <= K; k0 += 32, s ^= 1) {
        if (k0 < K)
            in(k0);
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            fragment<matrix_a, 32, 8, 16, half, row_major> fa[2];
            fragment<matrix_b, 32, 8, 16, half, row_major> fb[8];
            for (int i = 0; i < 2; i++)
                load_matrix_sync(fa[i], &sa[s][w / 2 * 64 + i * 32][k], 40);
            for (int j = 0; j < 8; j++)
                load_matrix_sync(fb[j], &sb[s][k][w % 2 * 64 + j * 8], 136);
            for (int j = 0; j < 8; j++)
                for (int i = 0; i < 2; i++)
                    mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        if (k0 < K)
            out(s ^ 1);
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 8; j++)
            store_matrix_sync(C + (blockIdx.y * 128 + w / 2 * 64 + i * 32) * N + blockIdx.x * 128 + w % 2 * 64 + j * 8, acc[i][j], N, mem_row_major);
}
