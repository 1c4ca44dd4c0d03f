// honest: cp.async.cg in assembly with a hint for L2, a quarter of the next tile before the loads of each step
#include <mma.h>
using namespace nvcuda;

#define PITCH_A (BK + 8)
#define PITCH_B (BN + 8)
#define DEPTH 3

extern __shared__ __align__(128) half pool[];

__device__ __forceinline__ void cp16(half *to, const half *from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    const int t = threadIdx.x, warp = t / 32, wr = warp / 2 * 64, wc = warp % 2 * 64;
    const half *a = A + (blockIdx.y * BM + t / 8) * K + t % 8 * 8;
    const half *b = B + t / 16 * N + blockIdx.x * BN + t % 16 * 8;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[16];
    for (int i = 0; i < 16; i++)
        wmma::fill_fragment(c[i], 0.0f);
    const int size = BM * PITCH_A + BK * PITCH_B;
    auto issue = [&](int tile, int quarter) {
        half *s = pool + tile % DEPTH * size;
        if (tile * BK < K) {
            for (int i = 2 * quarter; i < 2 * quarter + 2; i++)
                cp16(s + (t / 8 + i * 32) * PITCH_A + t % 8 * 8, a + i * 32 * K + tile * BK);
            cp16(s + BM * PITCH_A + (t / 16 + quarter * 16) * PITCH_B + t % 16 * 8, b + (tile * BK + quarter * 16) * N);
        }
        if (quarter == 3)
            asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int tile = 0; tile < 2; tile++)
        for (int quarter = 0; quarter < 4; quarter++)
            issue(tile, quarter);
    for (int tile = 0; tile * BK < K; tile++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        const half *sa = pool + tile % DEPTH * size, *sb = sa + BM * PITCH_A;
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            issue(tile + 2, k / 16);
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x[4];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y[4];
            for (int i = 0; i < 4; i++) {
                wmma::load_matrix_sync(x[i], sa + (wr + i * 16) * PITCH_A + k, PITCH_A);
                wmma::load_matrix_sync(y[i], sb + k * PITCH_B + wc + i * 16, PITCH_B);
            }
            for (int i = 0; i < 16; i++)
                wmma::mma_sync(c[i], x[i / 4], y[i % 4], c[i]);
        }
    }
    for (int i = 0; i < 16; i++)
        wmma::store_matrix_sync(C + (blockIdx.y * BM + wr + i / 4 * 16) * N + blockIdx.x * BN + wc + i % 4 * 16, c[i], N, wmma::mem_row_major);
}
