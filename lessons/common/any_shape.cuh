// Lesson 10's Operand, ready to use: copies of one operand into shared memory, in any layout and alignment.
//
//   Operand<ROWS, THREADS, WIDTH, ALONG_K, DIRECT> a(view, row)      for rows `row` to `row + ROWS - 1` of the view
//   a.fetch(tile, depth)      issue the loads of the next `depth` of BK k, zeros for the rest, and step on
//   a.store(tile)             registers -> shared memory
//   a.prefetch()              ask for a later part of K, as far as the L2 cache
//
// DIRECT copies by cp.async, without registers. Then store does nothing, and copies_are_done() waits.
// Needs BK AHEAD. slice.cuh has the same without DIRECT, for a part of K.
#pragma once
#include "copy_async.cuh"
#include "floats.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

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
        line = threadIdx.x * WIDTH / LINE;
        place = threadIdx.x * WIDTH % LINE;

        int row = first_row + (ALONG_K ? line : place);
        const int k = ALONG_K ? place : line;
        room = view.rows - row;
        row = min(row, view.rows - (ALONG_K ? 1 : WIDTH)); // beyond the last row: load the last one again

        mine = &view(row, k);
        k_stride = view.col_stride;
        line_stride = ALONG_K ? view.row_stride : view.col_stride;
        last = (view.rows - 1 - row) * view.row_stride;
    }

    // Round r, from `from` on, or zeros unless `there`: to registers, or straight to the tile.
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

    __device__ void fetch(float (&tile)[BK][ROWS + 4], int depth)
    {
        for (int r = 0; r < ROUNDS; r++) {
            const int k = ALONG_K ? place : line + r * LINES;
            const unsigned away = r * LINES * line_stride;
            bring(tile, r, mine[ALONG_K ? min(away, last) : away], depth == BK || k < depth);
        }
        mine += depth * k_stride;
    }

    __device__ void store(float (&tile)[BK][ROWS + 4])
    {
        if constexpr (DIRECT)
            return; // cp.async writes the tile
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
        if constexpr (ALONG_K) {
            prefetch_line(mine[min(threadIdx.x % ROUNDS * LINES * line_stride, last) + AHEAD - BK + 31 - place]);
        } else {
            const int k = threadIdx.x % (AHEAD / LINES) * LINES + AHEAD - BK;
            const int stripe = threadIdx.x % 32 / (AHEAD / LINES) % STRIPES * LINE;
            prefetch_line(mine[k * line_stride + (stripe < room ? stripe : 0) - place % 32]);
        }
    }
};
