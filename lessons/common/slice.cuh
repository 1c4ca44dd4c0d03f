// Lesson 10's parts for a slice of K, ready to use: copies of one operand through registers, and a thread's elements.
//
//   Operand<ROWS, THREADS, WIDTH, ALONG_K> a(view, row, k)      for rows `row` to `row + ROWS - 1`, from k on
//   a.fetch(depth)            global memory -> registers: the next `depth` of BK k, zeros for the rest; then step on
//   a.store(tile)             registers -> shared memory
//   a.prefetch()              ask for a later part of K, as far as the L2 cache
//   Place mine(threadIdx.x)   mine.row(i), mine.col(j): row and column of acc[i][j] in the block's tile
//   add_products(acc, a, b, As, Bs, mine, first, last)      lesson 10's main loop, in two buffers, over K tiles `first`
//                             to `last` - 1; a and b have fetched `first`
//
// Needs BM BN BK WM WN TM TN AHEAD PREFETCH. any_shape.cuh has the Operand that can also copy by cp.async.
#pragma once
#include "float4.cuh"
#include "floats.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

template <int ROWS, int THREADS, int WIDTH, bool ALONG_K>
struct Operand {
    static constexpr int LINE = ALONG_K ? BK : ROWS;             // elements in a line of the tile
    static constexpr int LINES = THREADS * WIDTH / LINE;         // lines that the block copies per round
    static constexpr int ROUNDS = ROWS * BK / (THREADS * WIDTH); // rounds until the tile is complete
    static_assert(THREADS * WIDTH % LINE == 0 && ROUNDS > 0, "the tile must be whole rounds of copying");

    int line = threadIdx.x * WIDTH / LINE;  // line of my first element in a tile
    int place = threadIdx.x * WIDTH % LINE; // its place in the line
    const float *mine;                      // the same element in global memory; moves along K
    int k_stride;                           // from one k to the next
    int line_stride;                        // from one line to the next
    unsigned last;                          // from `mine` to the last row of the view
    Floats<WIDTH> next[ROUNDS] = {};

    __device__ Operand(const Matrix<const float> &view, int first_row, int first_k)
    {
        int row = first_row + (ALONG_K ? line : place);
        row = min(row, view.rows - (ALONG_K ? 1 : WIDTH));
        mine = &view(row, first_k + (ALONG_K ? place : line));
        k_stride = view.col_stride;
        line_stride = ALONG_K ? view.row_stride : view.col_stride;
        last = (view.rows - 1 - row) * view.row_stride;
    }

    // global memory -> registers
    __device__ void fetch(int depth)
    {
        for (int r = 0; r < ROUNDS; r++) {
            const int k = ALONG_K ? place : line + r * LINES;
            const unsigned away = r * LINES * line_stride;
            if (depth == BK || k < depth)
                next[r] = floats_at<WIDTH>(mine[ALONG_K ? min(away, last) : away]);
            else
                next[r] = {};
        }
        mine += depth * k_stride;
    }

    // registers -> shared memory
    __device__ void store(float (&tile)[BK][ROWS + 4])
    {
        for (int r = 0; r < ROUNDS; r++) {
            if (ALONG_K)
                for (int j = 0; j < WIDTH; j++)
                    tile[place + j][line + r * LINES] = next[r].at[j];
            else
                floats_at<WIDTH>(tile[line + r * LINES][place]) = next[r];
        }
    }

    // One 128-byte line of the AHEAD k that start AHEAD after this tile (lesson 09).
    __device__ void prefetch() const
    {
        if constexpr (ALONG_K)
            prefetch_line(mine[min(threadIdx.x % ROUNDS * LINES * line_stride, last) + AHEAD - BK + 31 - place]);
        else
            prefetch_line(mine[(threadIdx.x % (AHEAD / LINES) * LINES + AHEAD - BK) * line_stride - place % 32]);
    }
};

// TM x TN elements of a warp's tile, in pieces of 4 x 4 (lesson 08).
struct Place {
    int thread_row, thread_col;

    __device__ explicit Place(int thread)
    {
        constexpr int LANE_COLS = WN / TN;
        const int warp = thread / 32;
        const int lane = thread % 32;
        thread_row = warp / (BN / WN) * WM + (lane / (2 * LANE_COLS) * 2 + lane % 2) * 4;
        thread_col = warp % (BN / WN) * WN + lane / 2 % LANE_COLS * 4;
    }

    __device__ int row(int i) const
    {
        return thread_row + i / 4 * (WM / (TM / 4)) + i % 4;
    }

    __device__ int col(int j) const
    {
        return thread_col + j / 4 * (WN / (TN / 4)) + j % 4;
    }
};

template <typename OperandA, typename OperandB>
__device__ void add_products(float (&acc)[TM][TN], OperandA &a, OperandB &b, float (&As)[2][BK][BM + 4],
                             float (&Bs)[2][BK][BN + 4], const Place &mine, int first, int last)
{
    static_assert(AHEAD % BK == 0, "prefetch asks for whole K tiles");

    const auto fetch = [&](int k_tile) {
        a.fetch(BK);
        b.fetch(BK);
        if (PREFETCH && (k_tile - first) % (AHEAD / BK) == 1 && k_tile + 2 * AHEAD / BK <= last) {
            a.prefetch();
            b.prefetch();
        }
    };

    const auto store = [&](int buffer) {
        a.store(As[buffer]);
        b.store(Bs[buffer]);
    };

    // shared memory -> products
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            for (int j = 0; j < TN; j += 4)
                float4_at(b_frag[j]) = float4_at(Bs[buffer][k][mine.col(j)]);
            for (int i = 0; i < TM; i += 4)
                float4_at(a_frag[i]) = float4_at(As[buffer][k][mine.row(i)]);

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
    };

    // One iteration: multiply the tile in buffer `now` while a K tile is in flight to the other buffer.
    const auto turn = [&](int now, int k_tile) {
        fetch(k_tile);
        multiply(now);
        store(1 - now);
        __syncthreads();
    };

    store(0);
    __syncthreads();

    // Two iterations at a time, so that buffer indices are constants.
    int k_tile = first + 1;
    for (; k_tile + 1 < last; k_tile += 2) {
        turn(0, k_tile);
        turn(1, k_tile + 1);
    }
    if (k_tile < last) {
        turn(0, k_tile);
        multiply(1);
    } else {
        multiply(0);
    }
}
