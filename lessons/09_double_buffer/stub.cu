// Lesson 09: double buffering
// New idea: fetch the next tile while computing this one; two buffers, so that one barrier per tile is enough.
// Before:   lesson 08, fetch, wait, compute, wait. Now: the loads are in flight while the block computes.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps; BM = 64, BN = 128, BK = 8, WM = 32, WN = 64, TM = TN = 8.
#include "float4.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (BK / 4); // rows of a_tile that the block copies in one pass
    constexpr int B_ROWS = THREADS / (BN / 4); // rows of b_tile
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the tiles must be whole passes of copying");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    static_assert(AHEAD % 32 == 0, "prefetch takes whole lines");
    __shared__ __align__(16) float As[2][BK][BM + 4]; // two buffers
    __shared__ __align__(16) float Bs[2][BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which elements of C are mine? My warp's tile, and in it TM x TN in pieces of 4 x 4.
    constexpr int LANE_COLS = WN / TN;
    constexpr int ROW_STEP = WM / (TM / 4);
    constexpr int COL_STEP = WN / (TN / 4);
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;
    const int lane_row = lane / (2 * LANE_COLS) * 2 + lane % 2;
    const int lane_col = lane / 2 % LANE_COLS;
    const int thread_row = warp_row + lane_row * 4;
    const int thread_col = warp_col + lane_col * 4;

    // Which float4 of the tiles do I copy? A row of a_tile has BK / 4 of them, a row of b_tile BN / 4.
    const int load_row_a = threadIdx.x / (BK / 4);
    const int load_col_a = threadIdx.x % (BK / 4) * 4;
    const int load_row_b = threadIdx.x / (BN / 4);
    const int load_col_b = threadIdx.x % (BN / 4) * 4;

    // Walk along K, one tile at a time. The body of lesson 08's loop, in three pieces:
    float acc[TM][TN] = {};
    float4 a_next[BM / A_ROWS];
    float4 b_next[BK / B_ROWS];
    const Matrix<const float> a_mine = a.tile(block_row + load_row_a, load_col_a, BM, K);
    const Matrix<const float> b_mine = b.tile(load_row_b, block_col + load_col_b, K, BN);

    // global memory -> registers: issues the loads; no warp waits until it uses a_next and b_next
    const auto fetch = [&](int k0) {
        // TODO(1): which float4 of the tiles at k0 do I load? Where do they wait?

        // Every AHEAD of K: prefetch the next AHEAD into the L2 cache.
        if (k0 % AHEAD == 0 && k0 + 2 * AHEAD <= K) {
            prefetch<THREADS>(a.tile(block_row, k0 + AHEAD, BM, AHEAD));
            prefetch<THREADS>(b.tile(k0 + AHEAD, block_col, AHEAD, BN));
        }
    };

    // registers -> shared memory
    const auto store = [&](int buffer) {
        // TODO(2): where in this buffer do a_next and b_next belong?
    };

    // shared memory -> products
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            for (int j = 0; j < TN; j += 4)
                float4_at(b_frag[j]) = float4_at(Bs[buffer][k][thread_col + j / 4 * COL_STEP]);
            for (int i = 0; i < TM; i += 4)
                float4_at(a_frag[i]) = float4_at(As[buffer][k][thread_row + i / 4 * ROW_STEP]);

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
    };

    // One turn: multiply the tile in buffer `now` while the tile at k0 arrives for the other buffer.
    const auto turn = [&](int now, int k0) {
        // TODO(3): which order of the steps hides the loads? Which buffer does each step use? Where is the one barrier?
    };

    // TODO(4): the prologue. What must be true before the first turn?

    // TODO(5): the main loop and the epilogue. Which buffer is read in each turn, and which holds the last tile?

    // Write my elements back.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = block_row + thread_row + i / 4 * ROW_STEP + i % 4;
            const int col = block_col + thread_col + j / 4 * COL_STEP;
            float4_at(c(row, col)) = float4_at(acc[i][j]);
        }
}
