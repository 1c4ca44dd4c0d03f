// Lesson 14: asynchronous copies
// New idea: copies from global to shared memory that need no registers, several tiles ahead of the products.
// Before:   lesson 13, through registers, one tile ahead. Now: STAGES tiles in shared memory, all but one in flight.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps, shared memory for STAGES stages; the warp tiles of
//           lesson 13, BM = 256, BK = 64, STAGES = 3. Tiles of C in bands of BAND rows of blocks.
#include <cuda_pipeline.h>
#include <mma.h>

#include "matrix.cuh"

using namespace nvcuda;

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (BK / 8); // rows of a_tile that the block copies in one iteration
    constexpr int B_ROWS = THREADS / (BN / 8); // rows of b_tile
    constexpr int STEPS = BK / 16;             // along K in a tile, and parts of its copies
    constexpr int A_PART = BM / STEPS;         // rows of a_tile in a part
    constexpr int B_PART = BK / STEPS;         // rows of b_tile
    static_assert(A_PART % A_ROWS == 0 && B_PART % B_ROWS == 0, "each iteration of the copy moves whole rows");
    static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % 16 == 0, "a warp tile is whole fragments");
    static_assert(PAD % 8 == 0, "rows must start at multiples of 16 bytes");
    struct Stage {
        half a[BM][BK + PAD];
        half b[BK][BN + PAD];
    };
    extern __shared__ __align__(32) Stage stages[]; // STAGES of them: the launch says how many bytes

    const Matrix<const half> a{A, M, K, K, 1};
    const Matrix<const half> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which tile of C is my block's? Blocks start in the order of their numbers. Blocks of BAND rows start column by
    // column, so that those that run at the same time need few different tiles of A and of B.
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int band = number / (BAND * gridDim.x) * BAND;
    const int rows = min(BAND, gridDim.y - band);
    const int block_row = (band + number % (BAND * gridDim.x) % rows) * BM;
    const int block_col = number % (BAND * gridDim.x) / rows * BN;

    // And my warp's?
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;

    // Which eight halves of the tiles do I copy? A row of a_tile has BK / 8 of them, a row of b_tile BN / 8.
    const int load_row_a = threadIdx.x / (BK / 8);
    const int load_col_a = threadIdx.x % (BK / 8) * 8;
    const int load_row_b = threadIdx.x / (BN / 8);
    const int load_col_b = threadIdx.x % (BN / 8) * 8;
    const Matrix<const half> a_mine = a.tile(block_row + load_row_a, load_col_a, BM, K);
    const Matrix<const half> b_mine = b.tile(load_row_b, block_col + load_col_b, K, BN);

    using A_Fragment = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
    using B_Fragment = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[WM / 16][WN / 16];
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 16; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

    // global memory -> shared memory: issues the copies of one part of the tile at k0, without waiting
    const auto copy = [&](int stage, int k0, int part) {
        // (1) fetch and store of lesson 13 in one, for the rows of this part.
        for (int r = part * A_PART; r < (part + 1) * A_PART; r += A_ROWS)
            __pipeline_memcpy_async(&stages[stage].a[load_row_a + r][load_col_a], &a_mine(r, k0), 16);
        for (int r = part * B_PART; r < (part + 1) * B_PART; r += B_ROWS)
            __pipeline_memcpy_async(&stages[stage].b[load_row_b + r][load_col_b], &b_mine(k0 + r, 0), 16);
    };

    // (2) Issue the first STAGES - 1 tiles, if K has that many; each is a group of its own.
    for (int stage = 0; stage < STAGES - 1; stage++) {
        for (int part = 0; part < STEPS; part++)
            if (stage * BK < K)
                copy(stage, stage * BK, part);
        __pipeline_commit();
    }

    // shared memory -> fragments, for a step of 16 of K
    A_Fragment a_frag[WM / 16];
    B_Fragment b_frag[WN / 16];
    const auto load = [&](int stage, int step) {
        for (int i = 0; i < WM / 16; i++)
            wmma::load_matrix_sync(a_frag[i], &stages[stage].a[warp_row + 16 * i][16 * step], BK + PAD);
        for (int j = 0; j < WN / 16; j++)
            wmma::load_matrix_sync(b_frag[j], &stages[stage].b[16 * step][warp_col + 16 * j], BN + PAD);
    };

    // fragments -> products
    const auto multiply = [&]() {
        for (int i = 0; i < WM / 16; i++)
            for (int j = 0; j < WN / 16; j++)
                wmma::mma_sync(acc[i][j], a_frag[i], b_frag[j], acc[i][j]);
    };

    // The main loop, one tile at a time.
    int now = 0; // the stage that holds the tile at k0
    int k0 = 0;
    const auto turn = [&](bool more) { // more: there is a tile STAGES - 1 ahead
        // (3) The oldest group is my part of this tile, so STAGES - 2 may stay in flight. Then the whole block's part.
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // (4) After the barrier no warp reads the tile before this one, so its stage takes the next tile. A part of it
        //     is issued in each step, after the loads that the tensor cores wait for and before the products.
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            load(now, step);
            if (more)
                copy((now + STAGES - 1) % STAGES, k0 + (STAGES - 1) * BK, step);
            if (step == STEPS - 1)
                __pipeline_commit();
            multiply();
        }
        now = (now + 1) % STAGES;
        k0 += BK;
    };
    while (k0 + (STAGES - 1) * BK < K)
        turn(true); // a loop of its own: no branch inside
    while (k0 < K)
        turn(false);

    // Write my warp's tile back.
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 16; j++)
            wmma::store_matrix_sync(&c(block_row + warp_row + 16 * i, block_col + warp_col + 16 * j), acc[i][j], N,
                                    wmma::mem_row_major);
}
