// honest: loads 16 bytes of B as well, turns them at the store with __byte_perm, and swizzles A
#include "int4.cuh"

union Sixteen {
    int4 v;
    int w[4];
};

extern "C" __global__ void __launch_bounds__(128, 2)
gemm(const signed char *A, const signed char *B, int *C, int M, int N, int K)
{
    __shared__ __align__(16) int sa[2][8][128];
    __shared__ __align__(16) int sb[2][8][64];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int r0 = (warp >> 1) * 64 + (((lane >> 3) << 1) | (lane & 1)) * 4, c0 = (warp & 1) * 32 + ((lane >> 1) & 3) * 4;
    A += (blockIdx.y * 128 + t / 2) * K + t % 2 * 16;
    B += (t / 4 % 8 * 4) * N + blockIdx.x * 64 + t % 4 * 16; // the first 32 threads: four rows of sixteen columns
    Sixteen ra[2], rb[4];
    int acc[8][8] = {};
    auto in = [&](int k0) {
        ra[0].v = int4_at(A[k0]);
        ra[1].v = int4_at(A[k0 + 64 * K]);
        if (warp == 0)
            for (int i = 0; i < 4; i++)
                rb[i].v = int4_at(B[(k0 + i) * N]);
    };
    auto out = [&](int s) {
        for (int i = 0; i < 4; i++) {
            sa[s][t % 2 * 4 + i][(t / 2) ^ (t % 2 * 16)] = ra[0].w[i];
            sa[s][t % 2 * 4 + i][(t / 2 + 64) ^ (t % 2 * 16)] = ra[1].w[i];
        }
        if (warp == 0)
            for (int g = 0; g < 4; g++) { // four columns at a time
                const int p = __byte_perm(rb[0].w[g], rb[1].w[g], 0x5140), q = __byte_perm(rb[2].w[g], rb[3].w[g], 0x5140);
                const int u = __byte_perm(rb[0].w[g], rb[1].w[g], 0x7362), v = __byte_perm(rb[2].w[g], rb[3].w[g], 0x7362);
                int4_at(sb[s][t / 4][t % 4 * 16 + g * 4]) = make_int4(__byte_perm(p, q, 0x5410), __byte_perm(p, q, 0x7632),
                                                                      __byte_perm(u, v, 0x5410), __byte_perm(u, v, 0x7632));
            }
    };
    in(0);
    out(0);
    __syncthreads();
    int s = 0;
    for (int k0 = 32; k0 <= K; k0 += 32) {
        if (k0 < K)
            in(k0);
#pragma unroll
        for (int w = 0; w < 8; w++) {
            Sixteen a[2], b[2];
            for (int h = 0; h < 2; h++) {
                a[h].v = int4_at(sa[s][w][(r0 + h * 32) ^ (w / 4 * 16)]);
                b[h].v = int4_at(sb[s][w][c0 + h * 16]);
            }
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    acc[i][j] = __dp4a(a[i / 4].w[i % 4], b[j / 4].w[j % 4], acc[i][j]);
        }
        if (k0 < K)
            out(s ^ 1);
        __syncthreads();
        s ^= 1;
    }
    for (int i = 0; i < 8; i++)
        for (int h = 0; h < 2; h++)
            int4_at(C[(blockIdx.y * 128 + r0 + i / 4 * 32 + i % 4) * N + blockIdx.x * 64 + c0 + h * 16]) = int4_at(acc[i][h * 4]);
}
