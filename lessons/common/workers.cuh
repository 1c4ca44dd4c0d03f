// Workers: lesson 12's way of sharing out K tiles, ready to use. The K tiles of all tiles of C form one line of units.
// Each of the first WHOLE blocks has a tile of its own; the units of the last CUT tiles are shared out among WORKERS.
//
//   Tiles tiles(N, K)
//   tiles.begin(block)              the unit with which a block's share begins; it ends where the next one's begins
//   tiles.piece(unit, end)          the K tiles from there on that belong to one tile of C, at most as far as `end`
//   tiles.row(tile), col(tile)      where a tile of C begins
//   tiles.depth                     K tiles of a tile: unit u is K tile u % depth of tile u / depth
//   Place mine(threadIdx.x)         which TM x TN elements of a tile belong to a thread: lesson 09
//   store_sums(C, P, ...)           a thread's sums of a piece: to C if it is all of the tile, else to P
//   add_pieces(P, C, N, K)          a launch of its own: C = the sum of the pieces, for each tile that was cut
//
// Needs BM BN BK WM WN TM TN WHOLE CUT WORKERS.
#pragma once
#include "float4.cuh"
#include "floats.cuh"
#include "matrix.cuh"

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");

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

struct Piece {
    int tile;
    int first, last; // its K tiles `first` to `last` - 1
};

struct Tiles {
    int cols;  // tiles beside each other
    int depth; // K tiles of a tile

    __device__ Tiles(int N, int K)
    {
        cols = N / BN;
        depth = K / BK;
    }

    __device__ int begin(int block) const
    {
        const int worker = block - WHOLE;
        return worker < 0 ? block * depth : WHOLE * depth + int((long long)worker * CUT * depth / WORKERS);
    }

    // Whose share has this unit of the last CUT tiles?
    __device__ int worker(int unit) const
    {
        return ((unit - WHOLE * depth + 1LL) * WORKERS - 1) / (CUT * depth);
    }

    __device__ Piece piece(int unit, int end) const
    {
        const int first = unit % depth;
        return Piece{unit / depth, first, min(depth, first + end - unit)};
    }

    __device__ int row(int tile) const
    {
        return tile / cols * BM;
    }

    __device__ int col(int tile) const
    {
        return tile % cols * BN;
    }
};

// P has a slot for each piece. From one to the next the worker changes, or the tile, or both: their sum is unique.
// In it lie the first 4 sums of thread 0, of thread 1, ..., then the next 4 of each.
__device__ inline float &partial(float *P, int worker, int tile, int quad)
{
    return P[(worker + tile - WHOLE) * BM * BN + quad * 4];
}

__device__ inline void store_sums(float *C, float *P, int N, const Tiles &tiles, const Piece &piece, float (&acc)[TM][TN])
{
    const Place mine(threadIdx.x);
    const Matrix<float> c{C, 0, N, N, 1};
    const int block_row = tiles.row(piece.tile);
    const int block_col = tiles.col(piece.tile);
    const bool whole = piece.last - piece.first == tiles.depth;
    if (!whole) {
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j += 4) {
                const int quad = (i * TN + j) / 4 * THREADS + threadIdx.x;
                float4_at(partial(P, int(blockIdx.x) - WHOLE, piece.tile, quad)) = float4_at(acc[i][j]);
            }
        return;
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            float4_at(c(block_row + mine.row(i), block_col + mine.col(j))) = float4_at(acc[i][j]);
}

// Tile WHOLE + blockIdx.y, 4 numbers for each thread.
__device__ inline void add_pieces(float *P, float *C, int N, int K)
{
    const Tiles tiles(N, K);
    const int tile = WHOLE + blockIdx.y;
    const int quad = blockIdx.x * blockDim.x + threadIdx.x;

    const int from = tiles.worker(tile * tiles.depth);
    const int to = tiles.worker((tile + 1) * tiles.depth - 1);
    if (from == to)
        return; // it was not cut, so it is in C already

    Floats<4> sum = {};
#pragma unroll 4
    for (int worker = from; worker <= to; worker++) {
        const Floats<4> part = floats_at<4>(partial(P, worker, tile, quad));
        for (int e = 0; e < 4; e++)
            sum.at[e] += part.at[e];
    }

    const Place place(quad % THREADS);
    const int row = tiles.row(tile) + place.row(quad / THREADS * 4 / TN);
    const int col = tiles.col(tile) + place.col(quad / THREADS * 4 % TN);
    floats_at<4>(C[row * N + col]) = sum;
}
