// C = A B by ldmatrix and mma.sync, a warp tile of WM x WN, shared memory swizzled (SWIZZLE 0: not). BYTES: int8, B given
// column by column; else halves, both row by row.
#include "tensor.cuh"
#ifndef SWIZZLE
#define SWIZZLE 1
#endif
#ifdef BYTES
typedef signed char T;
typedef int S;
#define FORM "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#define HELD "+r"
#else
#ifdef BRAIN
typedef __nv_bfloat16 T;
#define FORM "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
typedef half T;
#define FORM "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
typedef float S;
#define HELD "+f"
#endif
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int CHUNK = 16 / sizeof(T);

// where 16 bytes number `chunk` of `row` lie in a tile whose rows have `chunks` of them
__device__ int place(int row, int chunk, int chunks)
{
    const int turn = chunks >= 8 ? row % 8 : row / (8 / chunks) % chunks;
    return (row * chunks + (SWIZZLE ? chunk ^ turn : chunk)) * CHUNK;
}

__device__ void load(unsigned (&r)[4], const T *from)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

__device__ void load_transposed(unsigned (&r)[4], const T *from)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm(const T *A, const T *B, S *C, int M, int N, int K)
{
    extern __shared__ __align__(128) unsigned char raw[];
    T *As = reinterpret_cast<T *>(raw), *Bs = As + STAGES * BM * BK;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    A += (size_t)blockIdx.y * BM * K;
#ifdef BYTES
    B += (size_t)blockIdx.x * BN * K;
    constexpr int B_ROWS = BN, B_COLS = BK;
#else
    B += blockIdx.x * BN;
    constexpr int B_ROWS = BK, B_COLS = BN;
#endif
    S acc[WM / 16][WN / 8][4] = {};
    auto fetch = [&](int stage, int k0) {
#pragma unroll
        for (int turn = 0; turn < BM * BK / CHUNK / THREADS; turn++) {
            const int i = turn * THREADS + threadIdx.x;
            const int row = i / (BK / CHUNK), chunk = i % (BK / CHUNK);
            bring(&As[stage * BM * BK + place(row, chunk, BK / CHUNK)], &A[(size_t)row * K + k0 + chunk * CHUNK]);
        }
#pragma unroll
        for (int turn = 0; turn < BK * BN / CHUNK / THREADS; turn++) {
            const int i = turn * THREADS + threadIdx.x;
            const int row = i / (B_COLS / CHUNK), chunk = i % (B_COLS / CHUNK);
#ifdef BYTES
            const T *from = &B[(size_t)row * K + k0 + chunk * CHUNK];
#else
            const T *from = &B[(size_t)(k0 + row) * N + chunk * CHUNK];
#endif
            bring(&Bs[stage * BK * BN + place(row, chunk, B_COLS / CHUNK)], from);
        }
    };
    auto multiply = [&](int stage) {
        const T *a_tile = As + stage * BM * BK, *b_tile = Bs + stage * BK * BN;
#pragma unroll
        for (int k = 0; k < BK / CHUNK; k += 2) {
            unsigned a[WM / 16][4], b[WN / 16][4];
            for (int i = 0; i < WM / 16; i++)
                load(a[i], a_tile + place(wm + i * 16 + lane % 16, k + lane / 16, BK / CHUNK));
            for (int j = 0; j < WN / 16; j++)
#ifdef BYTES
                load(b[j], b_tile + place(wn + j * 16 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2, BK / CHUNK));
#else
                load_transposed(b[j], b_tile + place(k * CHUNK + lane % 16, (wn + j * 16) / 8 + lane / 16, BN / CHUNK));
#endif
            for (int i = 0; i < WM / 16; i++)
                for (int j = 0; j < WN / 8; j++)
                    asm volatile(FORM " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : HELD(acc[i][j][0]), HELD(acc[i][j][1]), HELD(acc[i][j][2]), HELD(acc[i][j][3])
                                 : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j / 2][j % 2 * 2]),
                                   "r"(b[j / 2][j % 2 * 2 + 1]));
        }
    };
    pipeline(K, BK, fetch, multiply);
    C += (size_t)(blockIdx.y * BM + wm + lane / 4) * N + blockIdx.x * BN + wn + lane % 4 * 2;
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 8; j++)
            for (int half = 0; half < 2; half++) {
                S *two = &C[(size_t)(i * 16 + half * 8) * N + j * 8];
                two[0] = acc[i][j][half * 2];
                two[1] = acc[i][j][half * 2 + 1];
            }
}
