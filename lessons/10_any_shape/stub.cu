// Lesson 10: any shape
// New idea: the host picks a kernel for layout and alignment; clamped rows and one short K tile handle the edges.
// Before:   lesson 09, whole tiles of row-major A and B. Now: any M, N, K, any leading dimension, NN NT TN TT.
// Launch:   grid (ceil(N/BN), ceil(M/BM)), block (BM/WM)*(BN/WN) warps; the tiles of lesson 09. For each launch the host
//           chooses TRANS_A TRANS_B, WIDTH_A WIDTH_B WIDTH_C (floats per access), DIRECT_A DIRECT_B (cp.async),
//           PREFETCH, BM, BN, WM, WN, TM and BLOCKS_PER_SM.
#include "copy_async.cuh"
#include "float4.cuh"
#include "floats.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

// Copies ROWS x BK elements of a view at a time to shared memory: through registers, or by cp.async if DIRECT.
// A line is contiguous in memory: BK elements of a row if ALONG_K, else ROWS elements of a column. If DIRECT, such a
// column is STRIPES lines; a thread has the same place in each, so one address and constant offsets serve them all.
template <int ROWS, int THREADS, int WIDTH, bool ALONG_K, bool DIRECT>
struct Operand {
    static constexpr int LINE = ALONG_K ? BK : DIRECT ? 32 : ROWS;       // elements in a line of the tile
    static constexpr int STRIPES = ALONG_K ? 1 : ROWS / LINE;            // lines next to each other
    static constexpr int LINES = THREADS * WIDTH / LINE;                 // lines that the block copies per round
    static constexpr int ROUNDS = ROWS / STRIPES * BK / THREADS / WIDTH; // rounds until the tile is complete
    static_assert(THREADS * WIDTH % LINE == 0 && ROUNDS > 0, "the tile must be whole rounds of copying");
    static_assert(!DIRECT || WIDTH == 1, "DIRECT copies one float at a time");

    int line = 0;      // line of my first element in a tile
    int place = 0;     // its place in the line
    const float *mine; // the same element in global memory; moves along K
    int k_stride;      // from one k to the next
    int line_stride;   // from one line to the next
    unsigned last;     // from `mine` to the last row of the view
    int room;          // rows of the view from my first one on
    Floats<WIDTH> next[ROUNDS] = {};

    __device__ Operand(const Matrix<const float> &view, int first_row)
    {
        // TODO(1): which element of the tile is my first one? Count along the lines.

        int row = first_row + (ALONG_K ? line : place);
        const int k = ALONG_K ? place : line;
        room = view.rows - row;
        // TODO(2): what does a thread load whose row, or one of its WIDTH rows, does not exist? See "Clamp".

        mine = &view(row, k);
        k_stride = view.col_stride;
        line_stride = ALONG_K ? view.row_stride : view.col_stride;
        last = (view.rows - 1 - row) * view.row_stride;
    }

    // My elements of round r, from `from` on, or zeros unless `there`: to registers, or straight to the tile.
    __device__ void bring(float (&tile)[BK][ROWS + 4], int r, const float &from, bool there)
    {
        if constexpr (!DIRECT)
            next[r] = there ? floats_at<WIDTH>(from) : Floats<WIDTH>{};
        else if constexpr (ALONG_K)
            copy_or_zero(tile[place][line + r * LINES], from, there);
        else
            for (int s = 0; s < ROWS; s += LINE)
                copy_or_zero(tile[line + r * LINES][place + s], (&from)[s], there && s < room);
    }

    // Issue the loads of `depth` of BK k, with zeros for the rest. Then step to the next tile.
    __device__ void fetch(float (&tile)[BK][ROWS + 4], int depth)
    {
        for (int r = 0; r < ROUNDS; r++) {
            const int k = ALONG_K ? place : line + r * LINES;
            // TODO(3): bring round r. How many floats is it from `mine`? Does its row exist? Its k?
        }
        mine += depth * k_stride;
    }

    // registers -> shared memory: a tile is BK lines of ROWS, whatever the operand's layout
    __device__ void store(float (&tile)[BK][ROWS + 4])
    {
        if constexpr (DIRECT)
            return; // cp.async writes the tile
        for (int r = 0; r < ROUNDS; r++) {
            // TODO(4): where does next[r] go in the tile, for lines along K and for lines along the rows?
        }
    }

    // Ask for one 128-byte line of the AHEAD k that start AHEAD after this tile, as far as the L2 cache (lesson 09).
    __device__ void prefetch() const
    {
        if constexpr (ALONG_K) {
            prefetch_line(mine[min(threadIdx.x % ROUNDS * LINES * line_stride, last) + AHEAD - BK + 31 - place]);
        } else {
            const int k = threadIdx.x % (AHEAD / LINES) * LINES + AHEAD - BK;
            const int stripe = threadIdx.x % 32 / (AHEAD / LINES) % STRIPES * LINE;
            prefetch_line(mine[k * line_stride + (stripe < room ? stripe : 0) - place % 32]);
        }
    }
};

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, int M, int N, int K, int lda, int ldb, int ldc)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    static_assert(AHEAD % 32 == 0, "prefetch asks for whole lines");
    __shared__ __align__(16) float As[2][BK][BM + 4];
    __shared__ __align__(16) float Bs[2][BK][BN + 4];

    // Both operands as rows x K, whatever their layout; B as N x K.
    const Matrix<const float> a_view{A, M, K, TRANS_A ? 1 : lda, TRANS_A ? lda : 1};
    const Matrix<const float> b_view{B, N, K, TRANS_B ? ldb : 1, TRANS_B ? 1 : ldb};
    const Matrix<float> c{C, M, N, ldc, 1};

    // Which elements of C are mine? TM x TN of my warp's tile, in pieces of 4 x 4.
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

    // Walk along K, one tile at a time.
    float acc[TM][TN] = {};
    Operand<BM, THREADS, WIDTH_A, !TRANS_A, DIRECT_A> a(a_view, block_row);
    Operand<BN, THREADS, WIDTH_B, TRANS_B, DIRECT_B> b(b_view, block_col);
    int depth = BK; // of the first tile
    // TODO(5): how many k does the first tile take? See "The short tile first".

    const auto fetch = [&](int buffer, int k0) {
        a.fetch(As[buffer], BK);
        b.fetch(Bs[buffer], BK);
        if (PREFETCH && (k0 - depth) % AHEAD == 0 && k0 + 2 * AHEAD <= K) {
            a.prefetch();
            b.prefetch();
        }
    };

    const auto store = [&](int buffer) {
        a.store(As[buffer]);
        b.store(Bs[buffer]);
        if (DIRECT_A || DIRECT_B)
            copies_are_done();
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

    // One iteration: multiply the tile in buffer `now` while the tile at k0 is in flight to the other buffer.
    const auto turn = [&](int now, int k0) {
        fetch(1 - now, k0);
        multiply(now);
        store(1 - now);
        __syncthreads();
    };

    a.fetch(As[0], depth);
    b.fetch(Bs[0], depth);
    store(0);
    __syncthreads();

    // Two iterations at a time, so that buffer indices are constants.
    int k0 = depth;
    for (; k0 + BK < K; k0 += 2 * BK) {
        turn(0, k0);
        turn(1, k0 + BK);
    }
    if (k0 < K) {
        turn(0, k0);
        multiply(1);
    } else {
        multiply(0);
    }

    // Write my elements back.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += WIDTH_C) {
            // TODO(6): which element of C is acc[i][j]? Does C have it? Store WIDTH_C at once.
        }
}
