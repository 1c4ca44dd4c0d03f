// Eight contiguous halves, read or written as one 128-bit access, as float4 is for floats.
//
//   half8_at(x) are the eight halves that start at the half x. x must be aligned to 16 bytes, in any memory.
//
//   half8_at(As[row][col]) = half8_at(a_tile(row, col));     one 128-bit load, one 128-bit store
//
// uint4 only means 128 bits here: no instruction computes with it. Lesson 13 uses it.
#pragma once
#include <cuda_fp16.h>

__device__ inline uint4 &half8_at(half &first)
{
    return reinterpret_cast<uint4 &>(first);
}

__device__ inline const uint4 &half8_at(const half &first)
{
    return reinterpret_cast<const uint4 &>(first);
}

template <typename Other> // another type would be converted, and the reference would be to that copy
__device__ const uint4 &half8_at(const Other &) = delete;
