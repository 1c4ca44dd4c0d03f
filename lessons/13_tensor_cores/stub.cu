// Lesson 13: tensor cores
// New idea: a warp multiplies 16x16x16 in one call. The operands are fragments, which only a whole warp can use.
// Before:   an instruction of a warp is 32 multiply-adds. Now: 2,048, of halves, with sums in float.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps; BM = BN = 128, BK = 32, WM = WN = 64.
#include <mma.h>

#include "halves.cuh"
#include "matrix.cuh"

using namespace nvcuda;

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (BK / 8); // rows of a_tile that the block copies in one iteration
    constexpr int B_ROWS = THREADS / (BN / 8); // rows of b_tile
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "each iteration of the copy moves whole rows");
    static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp tile is whole fragments");
    static_assert(BK == 32, "four lanes copy a row of a_tile");
    // TODO(1): declare As and Bs, aligned to 32 bytes. How long must their rows be? See "Banks, twice".

    const Matrix<const half> a{A, M, K, K, 1};
    const Matrix<const half> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which tile of C is my warp's?
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;

    // Which eight halves of the tiles do I copy? A row of a_tile has 4 pieces of eight, a row of b_tile BN / 8.
    int load_row_a = 0;
    // TODO(2): which row of a_tile is mine? Which two rows may eight lanes store at once?
    const int load_col_a = lane % 4 * 8;
    const int load_row_b = threadIdx.x / (BN / 8);
    const int load_col_b = threadIdx.x % (BN / 8) * 8;

    // My warp's sums, 16 x 16 in each fragment. Which of them a lane holds is not documented.
    using A_Fragment = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
    using B_Fragment = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[WM / 16][WN / 16];
    // TODO(3): what do the sums start from?

    // The main loop, one tile at a time, as in lesson 09.
    uint4 a_next[BM / A_ROWS];
    uint4 b_next[BK / B_ROWS];
    const Matrix<const half> a_mine = a.tile(block_row + load_row_a, load_col_a, BM, K);
    const Matrix<const half> b_mine = b.tile(load_row_b, block_col + load_col_b, K, BN);

    // global memory -> registers
    const auto fetch = [&](int k0) {
        for (int r = 0; r < BM; r += A_ROWS)
            a_next[r / A_ROWS] = half8_at(a_mine(r, k0));
        for (int r = 0; r < BK; r += B_ROWS)
            b_next[r / B_ROWS] = half8_at(b_mine(k0 + r, 0));
    };

    // registers -> shared memory
    const auto store = [&]() {
        // TODO(4): where does each piece of a_next and b_next go?
    };

    // shared memory -> products
    const auto multiply = [&]() {
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            A_Fragment a_frag[WM / 16];
            B_Fragment b_frag[WN / 16];
            // TODO(5): which part of As is each a_frag, and which part of Bs each b_frag? How far apart are rows?

            // TODO(6): which fragments are multiplied, and where is each product added?
        }
    };

    fetch(0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        store();
        __syncthreads();
        fetch(min(k0 + BK, K - BK)); // after the last tile, the last one again, unused
        multiply();
        __syncthreads();
    }

    // Write my warp's tile back.
    // TODO(7): where in C does each fragment go?
}
