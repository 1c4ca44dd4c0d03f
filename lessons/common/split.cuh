// fp32 from tensor cores: each number is given as two narrower ones, x = big + small, and a b = small big + big small + big big.
//
//   split(X, parts, rows, cols)     a kernel of its own, before the product: parts[0] the big ones, parts[1] the small ones
//   Split<Of>                       fragments of such pairs, made of the fragments `Of` of the narrower type
//
// SCALE keeps the small ones of float16 above its smallest numbers; it is a power of two and multiplies both factors.
// SUMS == 2 adds a tile's sum to that of the tiles before by ordinary additions, which round; the tensor core cuts.
// Lesson 15 includes this behind fragments.cuh and explains it in "fp32 from tensor cores".
#pragma once
#include "fragments.cuh"

#ifndef SCALE
#define SCALE 1
#endif
#ifndef SUMS
#define SUMS 1
#endif

// The number of a narrower type that is nearest to x.
__device__ inline void narrow(half &to, float x) { to = __float2half_rn(x); }
__device__ inline void narrow(float &to, float x) // tf32: the first 19 bits
{
    to = __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

template <typename Number>
__device__ inline void split_row(const float *X, Number *parts, int rows, int cols)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= rows * cols)
        return;
    const Row<float, 4> x = row_at<4>(X[i]);
    Row<Number, 4> big, small;
    for (int e = 0; e < 4; e++) {
        const float scaled = SCALE * x.at[e];
        narrow(big.at[e], scaled);
        narrow(small.at[e], scaled - float(big.at[e])); // exact: what big lacks fits into a float
    }
    row_at<4>(parts[i]) = big;
    row_at<4>(parts[i + rows * cols]) = small;
}

template <typename Of>
struct Split : Of {
    static constexpr int PARTS = 2, PASSES = 3;
    struct A {
        typename Of::A big, small;
    };
    struct B {
        typename Of::B big, small;
    };
    struct Sums {
        typename Of::Sums tile, all;
    };

    template <int WIDTH>
    __device__ static void load_a(A &a, const typename Of::Element *tile, int row, int k)
    {
        Of::template load_a<WIDTH>(a.big, tile, row, k);
        Of::template load_a<WIDTH>(a.small, tile + BM * BK, row, k);
    }

    template <int WIDTH>
    __device__ static void load_b(B &b, const typename Of::Element *tile, int k, int col)
    {
        Of::template load_b<WIDTH>(b.big, tile, k, col);
        Of::template load_b<WIDTH>(b.small, tile + BK * BN, k, col);
    }

    // The small products first. That of two small ones is left out.
    __device__ static void multiply_add(Sums &sums, const A &a, const B &b, int pass)
    {
        Of::multiply_add(sums.tile, pass == 0 ? a.small : a.big, pass == 1 ? b.small : b.big, 0);
    }

    __device__ static void settle(Sums &sums)
    {
        if constexpr (SUMS == 2) {
            float *tile = &sums.tile[0][0], *all = &sums.all[0][0];
            for (int e = 0; e < sizeof(sums.tile) / sizeof(float); e++) {
                all[e] += tile[e];
                tile[e] = 0.0f;
            }
        }
    }

    __device__ static void store(const Matrix<float> &c, int row, int col, const Sums &sums)
    {
        typename Of::Sums scaled;
        const float *from = SUMS == 2 ? &sums.all[0][0] : &sums.tile[0][0];
        for (int e = 0; e < sizeof(scaled) / sizeof(float); e++)
            (&scaled[0][0])[e] = from[e] * (1.0f / SCALE / SCALE);
        Of::store(c, row, col, scaled);
    }
};

template <>
struct Fragments<FP32_BY_TF32> : Split<Fragments<TF32>> {};

template <>
struct Fragments<FP32_BY_F16> : Split<Fragments<F16>> {};
