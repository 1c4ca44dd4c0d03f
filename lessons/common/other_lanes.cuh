// Lanes of the types that are not 16 bits wide: see lanes.cuh. Lesson 16 includes them for --type tf32_tma and int8_tma.
#pragma once
#include "fragments.cuh"
#include "lanes.cuh"

template <> // a product takes 8 k, and B has 32 columns in a strip: 16 and 16 of them, as Fragments<TF32>::my_col says
struct Lanes<Fragments<TF32>> {
    unsigned a, b;

    __device__ Lanes(int row, int col)
    {
        const int lane = threadIdx.x % 32, mine = Fragments<TF32>::my_col(0);
        a = place(row + lane / 16 * 8 + lane % 8, lane / 8 % 2);
        b = col / 32 * STRIP + place(lane % 4, mine / 4) + mine % 4 * 4;
    }

    __device__ void load_a(unsigned (&to)[2][2], unsigned tile, int i, int step) const
    {
        unsigned all[4];
        ldmatrix(all, ((tile + a) ^ (step * 32)) + i * 16 * 128);
        for (int n = 0; n < 4; n++)
            to[n / 2][n % 2] = all[n];
    }

    __device__ void load_b(unsigned (&to)[4], unsigned tile, int j, int step) const
    {
        for (int part = 0; part < 2; part++) // four rows further down, r % 8 has one more bit, and so has the place
            load_two(to[2 * part], to[2 * part + 1],
                     ((tile + b) ^ (j % 2 * 32 + part * 64)) + j / 2 * STRIP + (step * 8 + part * 4) * 128);
    }
};

template <> // a product takes 32 k, and B has 128 columns in a strip
struct Lanes<Fragments<S8>> {
    unsigned a, b;

    __device__ Lanes(int row, int col)
    {
        const int lane = threadIdx.x % 32, k = Fragments<S8>::my_row();
        a = place(row + lane % 16, lane / 16);
        b = col / 128 * STRIP + place(k, col % 128 / 16);
    }

    __device__ void load_a(unsigned (&to)[4], unsigned tile, int i, int step) const
    {
        ldmatrix(to, ((tile + a) ^ (step * 32)) + i * 16 * 128);
    }

    __device__ void load_b(unsigned (&to)[2][2], unsigned tile, int j, int step) const
    {
        unsigned pairs[2][2];
        ldmatrix_trans(pairs, ((tile + b) ^ (j * 16)) + step * 32 * 128);
        Fragments<S8>::pick(to, pairs);
    }
};
