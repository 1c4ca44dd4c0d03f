// Matrix instructions one by one: every form of mma on fragments from global memory; ldmatrix, stmatrix and movmatrix on
// rows that lie side by side, padded or swizzled; wmma's loads and stores; cp.async to the same rows.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#define C4(l) "+" l(c[0]), "+" l(c[1]), "+" l(c[2]), "+" l(c[3])
#define C2(l) "+" l(c[0]), "+" l(c[1])
#define P4 "{%0, %1, %2, %3}"
#define P2 "{%0, %1}"
#define R1_1 "d"(a[0]), "d"(b[0])
#define R2_1(l) l(a[0]), l(a[1]), l(b[0])
#define R4_2(l) l(a[0]), l(a[1]), l(a[2]), l(a[3]), l(b[0]), l(b[1])
#define R8_4(l) l(a[0]), l(a[1]), l(a[2]), l(a[3]), l(a[4]), l(a[5]), l(a[6]), l(a[7]), l(b[0]), l(b[1]), l(b[2]), l(b[3])

// NA, NB, NC registers of type T, sums in registers of type S
#define PRODUCT(name, T, S, NA, NB, NC, form, held, outs, places, ins) \
    extern "C" __global__ void name(const T *A, const T *B, S *C, int turns) \
    { \
        const int lane = threadIdx.x % 32, warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; \
        T a[NA], b[NB]; \
        S c[NC] = {}; \
        for (int turn = 0; turn < turns; turn++) { \
            for (int i = 0; i < NA; i++) a[i] = A[((warp + turn) % 4 * NA + i) * 32 + lane]; \
            for (int i = 0; i < NB; i++) b[i] = B[((warp + turn) % 4 * NB + i) * 32 + lane]; \
            asm volatile("mma.sync.aligned." form " " held ", " places ", " held ";" : outs : ins); \
        } \
        for (int i = 0; i < NC; i++) C[(warp * NC + i) * 32 + lane] = c[i]; \
    }
typedef unsigned u;
typedef signed char s8;
PRODUCT(f16_k8, u, float, 2, 1, 4, "m16n8k8.row.col.f32.f16.f16.f32", P4, C4("f"), "{%4, %5}, {%6}", R2_1("r"))
PRODUCT(f16_k16, u, float, 4, 2, 4, "m16n8k16.row.col.f32.f16.f16.f32", P4, C4("f"), "{%4, %5, %6, %7}, {%8, %9}", R4_2("r"))
PRODUCT(half_k8, u, u, 2, 1, 2, "m16n8k8.row.col.f16.f16.f16.f16", P2, C2("r"), "{%2, %3}, {%4}", R2_1("r"))
PRODUCT(half_k16, u, u, 4, 2, 2, "m16n8k16.row.col.f16.f16.f16.f16", P2, C2("r"), "{%2, %3, %4, %5}, {%6, %7}", R4_2("r"))
PRODUCT(bf16_k8, u, float, 2, 1, 4, "m16n8k8.row.col.f32.bf16.bf16.f32", P4, C4("f"), "{%4, %5}, {%6}", R2_1("r"))
PRODUCT(bf16_k16, u, float, 4, 2, 4, "m16n8k16.row.col.f32.bf16.bf16.f32", P4, C4("f"), "{%4, %5, %6, %7}, {%8, %9}", R4_2("r"))
PRODUCT(tf32_k4, u, float, 2, 1, 4, "m16n8k4.row.col.f32.tf32.tf32.f32", P4, C4("f"), "{%4, %5}, {%6}", R2_1("r"))
PRODUCT(tf32_k8, u, float, 4, 2, 4, "m16n8k8.row.col.f32.tf32.tf32.f32", P4, C4("f"), "{%4, %5, %6, %7}, {%8, %9}", R4_2("r"))
PRODUCT(s8_k16, u, u, 2, 1, 4, "m16n8k16.row.col.s32.s8.s8.s32", P4, C4("r"), "{%4, %5}, {%6}", R2_1("r"))
PRODUCT(u8_k32, u, u, 4, 2, 4, "m16n8k32.row.col.s32.u8.u8.s32", P4, C4("r"), "{%4, %5, %6, %7}, {%8, %9}", R4_2("r"))
PRODUCT(e4m3_k32, u, float, 4, 2, 4, "m16n8k32.row.col.f32.e4m3.e4m3.f32", P4, C4("f"), "{%4, %5, %6, %7}, {%8, %9}", R4_2("r"))
PRODUCT(f64_m8k4, double, double, 1, 1, 2, "m8n8k4.row.col.f64.f64.f64.f64", P2, C2("d"), "{%2}, {%3}", R1_1)
PRODUCT(f64_k4, double, double, 2, 1, 4, "m16n8k4.row.col.f64.f64.f64.f64", P4, C4("d"), "{%4, %5}, {%6}", R2_1("d"))
PRODUCT(f64_k8, double, double, 4, 2, 4, "m16n8k8.row.col.f64.f64.f64.f64", P4, C4("d"), "{%4, %5, %6, %7}, {%8, %9}", R4_2("d"))
PRODUCT(f64_k16, double, double, 8, 4, 4, "m16n8k16.row.col.f64.f64.f64.f64", P4, C4("d"),
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}", R8_4("d"))

enum { SIDE_BY_SIDE, PADDED, SWIZZLED };

// halves from the start of a tile of 64 columns
template <int LAYOUT> __device__ int place(int row, int chunk)
{
    return LAYOUT == PADDED ? row * 72 + chunk * 8 : row * 64 + (LAYOUT == SWIZZLED ? chunk ^ row % 8 : chunk) * 8;
}

#define GET(count, how, holes, ...) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" #count how ".shared.b16 " holes ";" : __VA_ARGS__ : "r"(at) : "memory")
#define PUT(count, how, holes, ...) \
    asm volatile("stmatrix.sync.aligned.m8n8.x" #count how ".shared.b16 " holes ";" ::"r"(at), __VA_ARGS__ : "memory")

// Copies a 32 x 64 tile to shared memory (BYTES of cp.async a lane, 0: without), then every warp loads COUNT matrices from
// each 16 x 16 part, transposes one in registers, and stores COUNT of them back.
template <int LAYOUT, int COUNT, bool ACROSS, int BYTES, bool KEPT> __global__ void moved(const half *in, unsigned *out, int rows)
{
    __shared__ __align__(16) half tile[32 * 72];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (BYTES == 0) {
        for (int i = threadIdx.x; i < 32 * 8; i += blockDim.x)
            *(uint4 *)&tile[place<LAYOUT>(i / 8, i % 8)] = *(const uint4 *)&in[i * 8];
    } else {
        constexpr int EACH = BYTES / 2;
        for (int i = threadIdx.x; i < 32 * 64 / EACH; i += blockDim.x) {
            const int row = i * EACH / 64, chunk = i * EACH % 64 / 8, within = i * EACH % 8;
            const unsigned to = __cvta_generic_to_shared(&tile[place<LAYOUT>(row, chunk) + within]);
            const half *from = in + i * EACH;
            if (BYTES == 4) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
            if (BYTES == 8) asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
            if (BYTES == 16 && KEPT) {
                if (row < rows) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
            } else if (BYTES == 16)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
        }
        asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    unsigned sum = 0, r[4] = {};
    for (int part = warp; part < 8; part += blockDim.x / 32) {
        const int row = part / 4 * 16 + lane % 16, chunk = part % 4 * 2 + lane / 16;
        const unsigned at = __cvta_generic_to_shared(&tile[place<LAYOUT>(row, chunk)]);
        if (COUNT == 1 && ACROSS) GET(1, ".trans", "{%0}, [%1]", "=r"(r[0]));
        if (COUNT == 1 && !ACROSS) GET(1, "", "{%0}, [%1]", "=r"(r[0]));
        if (COUNT == 2 && ACROSS) GET(2, ".trans", "{%0, %1}, [%2]", "=r"(r[0]), "=r"(r[1]));
        if (COUNT == 2 && !ACROSS) GET(2, "", "{%0, %1}, [%2]", "=r"(r[0]), "=r"(r[1]));
        if (COUNT == 4 && ACROSS) GET(4, ".trans", "{%0, %1, %2, %3}, [%4]", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]));
        if (COUNT == 4 && !ACROSS) GET(4, "", "{%0, %1, %2, %3}, [%4]", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]));
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(r[0]));
        sum += r[0] ^ r[1] ^ r[2] ^ r[3];
        __syncwarp();
        if (COUNT == 1 && ACROSS) PUT(1, ".trans", "[%0], {%1}", "r"(r[0]));
        if (COUNT == 1 && !ACROSS) PUT(1, "", "[%0], {%1}", "r"(r[0]));
        if (COUNT == 2 && ACROSS) PUT(2, ".trans", "[%0], {%1, %2}", "r"(r[0]), "r"(r[1]));
        if (COUNT == 2 && !ACROSS) PUT(2, "", "[%0], {%1, %2}", "r"(r[0]), "r"(r[1]));
        if (COUNT == 4 && ACROSS) PUT(4, ".trans", "[%0], {%1, %2, %3, %4}", "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
        if (COUNT == 4 && !ACROSS) PUT(4, "", "[%0], {%1, %2, %3, %4}", "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
    }
    out[threadIdx.x] = sum;
}

// One fragment product of wmma: a and b through shared memory (PAD) or straight from global memory (PAD < 0).
template <bool ROWS> struct Lies { typedef nvcuda::wmma::row_major how; };
template <> struct Lies<false> { typedef nvcuda::wmma::col_major how; };

template <typename T, typename Across, typename S, int M, int N, int K, bool AR, bool BR, int PAD>
__global__ void fragments(const T *A, const T *B, S *C)
{
    using namespace nvcuda::wmma;
    constexpr int P = PAD < 0 ? 0 : PAD;
    constexpr int LA = (AR ? K : M) + P, LB = (BR ? N : K) + P;
    __shared__ __align__(32) T as[(AR ? M : K) * LA], bs[(BR ? K : N) * LB];
    const T *a_from = A, *b_from = B;
    if (PAD >= 0) {
        for (int i = threadIdx.x; i < M * K; i += 32) as[i / (LA - P) * LA + i % (LA - P)] = A[i];
        for (int i = threadIdx.x; i < K * N; i += 32) bs[i / (LB - P) * LB + i % (LB - P)] = B[i];
        __syncthreads();
        a_from = as, b_from = bs;
    }
    fragment<matrix_a, M, N, K, Across, typename Lies<AR>::how> a;
    fragment<matrix_b, M, N, K, Across, typename Lies<BR>::how> b;
    fragment<accumulator, M, N, K, S> c;
    load_matrix_sync(a, a_from, LA);
    load_matrix_sync(b, b_from, LB);
    load_matrix_sync(c, C, N, mem_row_major);
    mma_sync(c, a, b, c);
    store_matrix_sync(C, c, N, mem_row_major);
}
