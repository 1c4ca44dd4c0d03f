// cheat: wrong idea: splits the factors in two and multiplies on the tensor cores, three times
// expect: wrong_answer wrong at
#include <cuda_pipeline.h>

constexpr int T = (BM / WM) * (BN / WN) * 32;

__device__ inline void split(float x, unsigned &big, unsigned &small)
{
    big = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    small = __float_as_uint(x - __uint_as_float(big));
}

__device__ inline void product(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(T)
gemm(const float *A, const float *B, float *C, float *P, int M, int N, int K)
{
    if (blockIdx.x >= WHOLE + CUT)
        return;
    __shared__ __align__(16) float As[2][8][BM + 8], Bs[2][8][BN + 8];
    const int t = threadIdx.x, lane = t % 32, row0 = blockIdx.x / (N / BN) * BM, col0 = blockIdx.x % (N / BN) * BN;
    const int wr = t / 32 / (BN / WN) * WM, wc = t / 32 % (BN / WN) * WN;
    float sums[WM / 16][WN / 8][4] = {};
    const auto copy = [&](int s, int k0) {
        for (int i = t; i < BM * 8; i += T)
            __pipeline_memcpy_async(&As[s][i % 8][i / 8], &A[(row0 + i / 8) * K + k0 + i % 8], 4);
        for (int i = t; i < BN * 2; i += T)
            __pipeline_memcpy_async(&Bs[s][i / (BN / 4)][i % (BN / 4) * 4], &B[(k0 + i / (BN / 4)) * N + col0 + i % (BN / 4) * 4], 16);
        __pipeline_commit();
    };
    copy(0, 0);
    for (int k0 = 0, s = 0; k0 < K; k0 += 8, s ^= 1) {
        __pipeline_wait_prior(0);
        __syncthreads();
        if (k0 + 8 < K)
            copy(s ^ 1, k0 + 8);
        unsigned b[WN / 8][2], c[WN / 8][2];
        for (int j = 0; j < WN / 8; j++)
            for (int h = 0; h < 2; h++)
                split(Bs[s][lane % 4 + 4 * h][wc + j * 8 + lane / 4], b[j][h], c[j][h]);
        for (int i = 0; i < WM / 16; i++) {
            unsigned a[4], d[4];
            for (int h = 0; h < 4; h++)
                split(As[s][lane % 4 + h / 2 * 4][wr + i * 16 + h % 2 * 8 + lane / 4], a[h], d[h]);
            for (int j = 0; j < WN / 8; j++) {
                float tile[4] = {};
                product(tile, d, b[j]);
                product(tile, a, c[j]);
                product(tile, a, b[j]);
                for (int e = 0; e < 4; e++)
                    sums[i][j][e] += tile[e];
            }
        }
    }
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 8; j++)
            for (int e = 0; e < 4; e++)
                C[(row0 + wr + i * 16 + e / 2 * 8 + lane / 4) * N + col0 + wc + j * 8 + lane % 4 * 2 + e % 2] = sums[i][j][e];
}

extern "C" __global__ void __launch_bounds__(ADDERS) combine(float *P, float *C, int M, int N, int K)
{
}
