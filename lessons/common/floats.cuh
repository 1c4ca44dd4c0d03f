// Floats<WIDTH>: 1, 2 or 4 contiguous floats, read or written as one access of 32, 64 or 128 bits.
//
//   floats_at<WIDTH>(x) are the WIDTH floats that start at x, whose address must be a multiple of 4 * WIDTH bytes.
//
//   Floats<2> pair = floats_at<2>(a(row, col));     one 64-bit load
//   floats_at<2>(c(row, col)) = pair;               one 64-bit store
//   pair.at[1]                                      the second of them
//
// Lesson 10 explains who chooses the width.
#pragma once

template <int WIDTH>
struct alignas(4 * WIDTH) Floats {
    float at[WIDTH];
};

template <int WIDTH>
__device__ inline Floats<WIDTH> &floats_at(float &first)
{
    return reinterpret_cast<Floats<WIDTH> &>(first);
}

template <int WIDTH>
__device__ inline const Floats<WIDTH> &floats_at(const float &first)
{
    return reinterpret_cast<const Floats<WIDTH> &>(first);
}

template <int WIDTH, typename Other> // of another type it would be a copy, with other elements after it
__device__ const Floats<WIDTH> &floats_at(const Other &) = delete;
