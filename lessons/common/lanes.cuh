// Lanes<Of>: the addresses of a lane's share of the fragments in tiles that arrived by TMA, computed once instead of
// for each fragment.
//
//   Lanes<Of> lanes(row, col)            of a warp whose tile starts at this row of A's tile and column of B's
//   lanes.load_a(a, tile, i, step)         16 rows from 16 i on, product number `step` along K; `tile`: where A's tile starts
//   lanes.load_b(b, tile, j, step)         16 columns from 16 j on; `tile`: where the strips of B's tile start
//
// A tile is rows of 128 bytes, and piece p of row r is at place p xor r % 8. The piece 8 or 16 rows further down is at a
// constant distance. The piece two further along the row: if that bit of p is 0, p + 2 is p xor 2, and the place is
// (p xor 2) xor r % 8 = (p xor r % 8) xor 2: the address, xored with a constant. Tiles start at multiples of 1024.
//
// The appendix of lesson 15 explains it in "A tile by one thread".
#pragma once
#include "mma.cuh"

__device__ inline unsigned place(int row, int piece)
{
    return row * 128 + (piece ^ row % 8) * 16;
}

constexpr unsigned STRIP = BK * 128; // bytes from one strip of B's tile to the next

template <typename Of> // of 16 bits: a product takes two pieces of a row of A, and B has 64 columns in a strip
struct Lanes {
    unsigned a, b;

    __device__ Lanes(int row, int col)
    {
        const int lane = threadIdx.x % 32;
        a = place(row + lane % 16, lane / 16);
        b = col / 64 * STRIP + place(lane % 16, lane / 16);
    }

    __device__ void load_a(unsigned (&to)[4], unsigned tile, int i, int step) const
    {
        ldmatrix(to, ((tile + a) ^ (step * 32)) + i * 16 * 128);
    }

    __device__ void load_b(unsigned (&to)[2][2], unsigned tile, int j, int step) const
    {
        ldmatrix_trans(to, ((tile + b) ^ (j * 32)) + step * 16 * 128);
    }
};
