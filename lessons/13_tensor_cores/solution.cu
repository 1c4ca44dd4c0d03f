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
    // (1) PAD halves after each row, one piece: eight rows then start in eight different places.
    static_assert(PAD % 8 == 0, "rows must start at multiples of 16 bytes");
    __shared__ __align__(32) half As[BM][BK + PAD];
    __shared__ __align__(32) half Bs[BK][BN + PAD];

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
    // (2) Eight lanes store two rows, n and n + 4, whose pieces are in different banks: 0, 4, 1, 5, 2, 6, 3, 7.
    load_row_a = warp * 8 + lane / 4 % 2 * 4 + lane / 8;
    const int load_col_a = lane % 4 * 8;
    const int load_row_b = threadIdx.x / (BN / 8);
    const int load_col_b = threadIdx.x % (BN / 8) * 8;

    // My warp's sums, 16 x 16 in each fragment. Which of them a lane holds is not documented.
    using A_Fragment = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
    using B_Fragment = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[WM / 16][WN / 16];
    // (3) Nothing is added yet.
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 16; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

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
        // (4) Each piece to the row and column of the tile that it was fetched from.
        for (int r = 0; r < BM; r += A_ROWS)
            half8_at(As[load_row_a + r][load_col_a]) = a_next[r / A_ROWS];
        for (int r = 0; r < BK; r += B_ROWS)
            half8_at(Bs[load_row_b + r][load_col_b]) = b_next[r / B_ROWS];
    };

    // shared memory -> products
    const auto multiply = [&]() {
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            A_Fragment a_frag[WM / 16];
            B_Fragment b_frag[WN / 16];
            // (5) My warp's rows from column k of As, its columns from row k of Bs: 16 x 16 each.
            for (int i = 0; i < WM / 16; i++)
                wmma::load_matrix_sync(a_frag[i], &As[warp_row + 16 * i][k], BK + PAD);
            for (int j = 0; j < WN / 16; j++)
                wmma::load_matrix_sync(b_frag[j], &Bs[k][warp_col + 16 * j], BN + PAD);
            // (6) Each with each.
            for (int i = 0; i < WM / 16; i++)
                for (int j = 0; j < WN / 16; j++)
                    wmma::mma_sync(acc[i][j], a_frag[i], b_frag[j], acc[i][j]);
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
    // (7) A fragment goes to row-major memory, whose rows are N floats apart.
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 16; j++)
            wmma::store_matrix_sync(&c(block_row + warp_row + 16 * i, block_col + warp_col + 16 * j), acc[i][j], N,
                                    wmma::mem_row_major);
}
