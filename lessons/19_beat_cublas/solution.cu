// Lesson 19: beat cuBLAS
// New idea: the register file is the limit; walk through the products there and back, so that each reads two registers.
// Before:   lesson 09, row by row, one tile for all. Now: there and back, B by cp.async, and a tile for each shape.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps. For each launch the host chooses BM BN BK WM TM TN
//           BLOCKS_PER_SM and PREFETCH; most shapes get 64x128x16 in warp tiles of 64x32, 8x8, 4 and 0.
#include <cuda_pipeline.h>

#include "float4.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

#ifdef WORKERS // run --type cut: "The last round"
#include "last_round.cuh"
#else

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / 2;                 // rows of a_tile that the block copies in one round, 8 of each
    constexpr int A_ROUNDS = BM / A_ROWS * (BK / 8);    // rounds until a_tile is complete
    constexpr int B_ROUNDS = BK * BN / 4 / THREADS;     // the same for b_tile, a float4 a thread
    static_assert(BM % A_ROWS == 0 && BK % 8 == 0, "a_tile must be whole rounds of copying");
    static_assert(BK * BN / 4 % THREADS == 0, "b_tile, too");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    __shared__ __align__(16) float As[2][BK][BM + 4];
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
    const int lane_row = lane / (2 * LANE_COLS) * 2 + lane % 2;
    const int lane_col = lane / 2 % LANE_COLS;
    const int thread_row = warp / (BN / WN) * WM + lane_row * 4;
    const int thread_col = warp % (BN / WN) * WN + lane_col * 4;

    // Which numbers of A do I copy? Two threads take the 32 bytes of a row that are a sector.
    const int load_row = threadIdx.x / 2;
    const int load_col = threadIdx.x % 2 * 4;
    const Matrix<const float> a_mine = a.tile(block_row + load_row, load_col, BM, K);
    const Matrix<const float> b_tile = b.tile(0, block_col, K, BN);

    float acc[TM][TN] = {};
    float4 a_next[A_ROUNDS];

    // global memory -> registers for A, which is turned on its way; -> shared memory for B. Nobody waits.
    const auto fetch = [&](int buffer, int k0) {
#pragma unroll
        for (int r = 0; r < A_ROUNDS; r++)
            a_next[r] = float4_at(a_mine(r / (BK / 8) * A_ROWS, k0 + r % (BK / 8) * 8));
        // (1) B comes as it lies, so it needs no registers.
#pragma unroll
        for (int r = 0; r < B_ROUNDS; r++) {
            const int piece = threadIdx.x + r * THREADS;
            const int row = piece / (BN / 4);
            const int col = piece % (BN / 4) * 4;
            __pipeline_memcpy_async(&Bs[buffer][row][col], &b_tile(k0 + row, col), 16);
        }
        __pipeline_commit();

        // Few blocks: bring the next AHEAD as far as the L2 cache (lesson 09).
        if (PREFETCH && k0 % AHEAD == 0 && k0 + 2 * AHEAD <= K) {
            prefetch<THREADS>(a.tile(block_row, k0 + AHEAD, BM, AHEAD));
            prefetch<THREADS>(b.tile(k0 + AHEAD, block_col, AHEAD, BN));
        }
    };

    // registers -> shared memory for A; B has arrived when my copies have.
    const auto store = [&](int buffer) {
#pragma unroll
        for (int r = 0; r < A_ROUNDS; r++) {
            const int row = load_row + r / (BK / 8) * A_ROWS;
            const int k = load_col + r % (BK / 8) * 8;
            As[buffer][k + 0][row] = a_next[r].x;
            As[buffer][k + 1][row] = a_next[r].y;
            As[buffer][k + 2][row] = a_next[r].z;
            As[buffer][k + 3][row] = a_next[r].w;
        }
        __pipeline_wait_prior(0);
    };

    // shared memory -> products
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            for (int i = 0; i < TM; i += 4)
                float4_at(a_frag[i]) = float4_at(As[buffer][k][thread_row + i / 4 * ROW_STEP]);
            for (int j = 0; j < TN; j += 4)
                float4_at(b_frag[j]) = float4_at(Bs[buffer][k][thread_col + j / 4 * COL_STEP]);

            // (2) Column by column, down and up again: from one product to the next only one factor changes.
            for (int j = 0; j < TN; j++)
                for (int n = 0; n < TM; n++) {
                    const int i = j % 2 ? TM - 1 - n : n;
                    acc[i][j] += a_frag[i] * b_frag[j];
                }
        }
    };

    // Walk along K, one tile at a time.
    int now = 0;
    fetch(now, 0);
    store(now);
    __syncthreads();
    for (int k0 = BK; k0 < K; k0 += BK) {
        fetch(1 - now, k0);
        multiply(now);
        store(1 - now);
        __syncthreads();
        now = 1 - now;
    }
    // (3) The last tile has a multiply of its own.
    multiply(now);

    // Write my elements back.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = block_row + thread_row + i / 4 * ROW_STEP + i % 4;
            const int col = block_col + thread_col + j / 4 * COL_STEP;
            float4_at(c(row, col)) = float4_at(acc[i][j]);
        }
}
#endif
