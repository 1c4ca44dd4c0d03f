// Lesson 15: mma
// New idea: fragments by hand: ldmatrix from tiles that are swizzled instead of padded, mma.sync, and the next step's
//           fragments loaded while this step's are multiplied.
// Before:   lesson 14, opaque fragments from padded tiles, and products that wait for them.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps; BM = 256, BN = 128, BK = 64, WM = WN = 64, STAGES = 4.
//           BAND rows of blocks go through the columns of B together.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include "floats.cuh"
#include "matrix.cuh"
#include "mma.cuh"

constexpr int PIECE = 8; // halves in 16 bytes: what one copy takes, and a row of a matrix of ldmatrix

// Where half (row, col) of a tile of COLS columns is stored. A row is pieces of 16 bytes, which change places.
template <int COLS>
__device__ inline unsigned swizzled(unsigned row, unsigned col)
{
    unsigned place = col / PIECE;
    // TODO(1): give piece `place` another place in each of eight consecutive rows, by xor with row % 8.
    return row * COLS + place * PIECE + col % PIECE;
}

// The fragments of a lane. A product takes 16 of k, and one ldmatrix loads B for two products.
struct Halves {
    using Element = half;
    using Sum = float;
    using A = unsigned[4];    // a lane's share of 16 rows x 16 k
    using B = unsigned[2][2]; // of 16 k x 16 columns, for two products
    using Sums = float[2][4]; // of 16 rows x 16 columns
    static constexpr int DEPTH = 16, COLS = 16; // of k and of columns, that one load_b takes
    static constexpr int PAD = 8;               // floats after each row of C in shared memory: store has no conflicts
    static constexpr bool B_FIRST = false;      // lesson 16 has numbers with B as the first factor

    template <int WIDTH>
    __device__ static void load_a(A &a, const half *tile, int row, int k)
    {
        const int lane = threadIdx.x % 32;
        // TODO(2): which row of which of the four matrices is mine? Move row and k there. See "Who holds what".
        ldmatrix(a, &tile[swizzled<WIDTH>(row, k)]);
    }

    template <int WIDTH>
    __device__ static void load_b(B &b, const half *tile, int k, int col)
    {
        const int lane = threadIdx.x % 32;
        // TODO(3): move k and col to my row of the four matrices of B, and load them with ldmatrix_trans into b.
    }

    __device__ static void store(const Matrix<float> &c, int row, int col, const Sums &sums)
    {
        const int lane = threadIdx.x % 32;
        for (int w = 0; w < 2; w++)
            for (int lower = 0; lower < 2; lower++) {
                const Floats<2> pair = {sums[w][2 * lower], sums[w][2 * lower + 1]};
                // TODO(4): store the pair where it belongs in C, by floats_at<2>. See "Who holds what".
            }
    }

    __device__ static void multiply_add(Sums &sums, const A &a, const B &b)
    {
        for (int w = 0; w < 2; w++)
            mma_f16(sums[w], a, b[w]);
    }
};

using Of = Halves; // lesson 16 has other types

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (BK / PIECE); // rows of a_tile that the block copies in one iteration
    constexpr int B_ROWS = THREADS / (BN / PIECE); // rows of b_tile
    constexpr int STEPS = BK / Of::DEPTH;
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "each iteration of the copy moves whole rows");
    static_assert(BK % (8 * PIECE) == 0 && BN % (8 * PIECE) == 0, "eight pieces of a row change places");
    static_assert(WM % 16 == 0 && WN % Of::COLS == 0, "a warp tile is whole fragments");
    static_assert(STEPS % 2 == 0, "the two sets of fragments take turns");
    struct Stage {
        half a[BM * BK], b[BK * BN];
    };
    extern __shared__ __align__(128) unsigned char shared[];
    Stage *stages = reinterpret_cast<Stage *>(shared);

    const Matrix<const half> a{A, M, K, K, 1};
    const Matrix<const half> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which tile of C is my block's? Blocks start in the order of their numbers. Those of BAND rows
    // start column by column, so that blocks that run at the same time share tiles of A and of B.
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int band = number / (BAND * gridDim.x) * BAND;
    const int rows = min(BAND, gridDim.y - band);
    const int block_row = (band + number % (BAND * gridDim.x) % rows) * BM;
    const int block_col = number % (BAND * gridDim.x) / rows * BN;

    // And my warp's?
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;

    // Which pieces of the tiles do I copy? A row of a_tile has BK / PIECE of them, a row of b_tile BN / PIECE.
    const int load_row_a = threadIdx.x / (BK / PIECE);
    const int load_col_a = threadIdx.x % (BK / PIECE) * PIECE;
    const int load_row_b = threadIdx.x / (BN / PIECE);
    const int load_col_b = threadIdx.x % (BN / PIECE) * PIECE;
    const half *a_from = &a(block_row + load_row_a, load_col_a); // my first pieces; they advance along K
    const half *b_from = &b(load_row_b, block_col + load_col_b);

    // global memory -> shared memory: issues the copies of the next tile, without waiting
    const auto copy = [&](int stage) {
        for (int r = 0; r < BM; r += A_ROWS)
            __pipeline_memcpy_async(stages[stage].a + swizzled<BK>(load_row_a + r, load_col_a), a_from + r * K, 16);
        for (int r = 0; r < BK; r += B_ROWS)
            __pipeline_memcpy_async(stages[stage].b + swizzled<BN>(load_row_b + r, load_col_b), b_from + r * N, 16);
        a_from += BK;
        b_from += BK * N;
    };

    // shared memory -> registers: one set of fragments is multiplied while the other arrives
    Of::A a_frag[2][WM / 16] = {};
    Of::B b_frag[2][WN / Of::COLS] = {};
    const auto load = [&](int set, int stage, int step) {
        for (int i = 0; i < WM / 16; i++)
            Of::load_a<BK>(a_frag[set][i], stages[stage].a, warp_row + i * 16, step * Of::DEPTH);
        for (int j = 0; j < WN / Of::COLS; j++)
            Of::load_b<BN>(b_frag[set][j], stages[stage].b, step * Of::DEPTH, warp_col + j * Of::COLS);
    };

    // registers -> products: each fragment of A with each of B
    Of::Sums acc[WM / 16][WN / Of::COLS] = {};
    const auto multiply = [&](int set) {
        for (int i = 0; i < WM / 16; i++)
            for (int j = 0; j < WN / Of::COLS; j++)
                Of::multiply_add(acc[i][j], a_frag[set][i], b_frag[set][j]);
    };

    // Issue the copies of the first STAGES - 1 tiles, each as a group, as in lesson 14. Load the first fragments.
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage * BK < K)
            copy(stage);
        __pipeline_commit();
    }
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    load(0, 0, 0);

    // The main loop, one tile at a time.
    int now = 0; // the stage that holds the tile at k0
    int k0 = 0;
    const auto turn = [&](bool more, bool last) { // more: there is a tile STAGES - 1 ahead
        const int next = now == STAGES - 1 ? 0 : now + 1;
        const int before = now == 0 ? STAGES - 1 : now - 1; // holds the tile before this one
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            // TODO(5): load the fragments of the next step into the other set: of this tile, or, in the last step, of the
            // next tile once it has arrived for all threads, if there is one.

            // TODO(6): in the first step, unless it is the last tile, issue the copies of the tile that is STAGES - 1 ahead,
            // if there is one, into stage `before`, and commit a group in any case.
            multiply(step % 2);
        }
        now = next;
        k0 += BK;
    };
    while (k0 + (STAGES - 1) * BK < K)
        turn(true, false); // a copy of the loop without the test for `more`
    while (k0 + BK < K)
        turn(k0 + (STAGES - 1) * BK < K, false);
    turn(false, true);

    // Write my elements back: 16 rows at a time through a stage that is no longer read, so that the lanes of a warp
    // store 16 bytes each, consecutive in whole rows of its tile.
    constexpr int SIDE = 4, WIDE = WN / SIDE;
    static_assert(32 % WIDE == 0, "the lanes of a warp store whole rows");
    static_assert(sizeof(Stage) >= THREADS / 32 * 16 * (WN + Of::PAD) * sizeof(float), "a stage has room for 16 rows");
    float *room = reinterpret_cast<float *>(&stages[now]) + warp * 16 * (WN + Of::PAD);
    const Matrix<float> slab{room, 16, WN, WN + Of::PAD, 1};
    for (int i = 0; i < WM / 16; i++) {
        for (int j = 0; j < WN / Of::COLS; j++)
            Of::store(slab, 0, j * Of::COLS, acc[i][j]);
        __syncwarp();
        for (int n = 0; n < 16 * WIDE; n += 32) {
            const int row = (n + threadIdx.x % 32) / WIDE, col = threadIdx.x % WIDE * SIDE;
            floats_at<SIDE>(c(block_row + warp_row + i * 16 + row, block_col + warp_col + col)) =
                floats_at<SIDE>(slab(row, col));
        }
        __syncwarp();
    }
}

#if COPY == 2 // tiles arrive by TMA: see the appendix
#include "by_tma.cuh"
#endif
