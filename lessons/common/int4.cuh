// int4: four contiguous ints, read or written as one 128-bit access.
//
//   int4_at(x) is the int4 that starts at x: an int, or one of sixteen numbers of 8 bits. x must be aligned to
//   16 bytes, in any memory. int_at(x) is the int that starts at the 8-bit number x, at a multiple of 4 bytes.
//
//   int4_at(Bs[k][col]) = int4_at(b_tile(k, col));     one 128-bit load, one 128-bit store
//
// Lesson 25 explains what is in them.
#pragma once

__device__ inline int4 &int4_at(int &first)
{
    return reinterpret_cast<int4 &>(first);
}

__device__ inline const int4 &int4_at(const signed char &first)
{
    return reinterpret_cast<const int4 &>(first);
}

__device__ inline const int &int_at(const signed char &first)
{
    return reinterpret_cast<const int &>(first);
}

#ifdef __CUDA_FP16_TYPES_EXIST__ // after cuda_fp16.h: an int is two halves, an int2 four, an int4 eight
__device__ inline const int4 &int4_at(const half &first)
{
    return reinterpret_cast<const int4 &>(first);
}

__device__ inline const int2 &int2_at(const half &first) // aligned to 8 bytes
{
    return reinterpret_cast<const int2 &>(first);
}

__device__ inline int2 &int2_at(half &first)
{
    return reinterpret_cast<int2 &>(first);
}

__device__ inline half2 half2_at(const int &word)
{
    return reinterpret_cast<const half2 &>(word);
}

__device__ inline int int_of(const half2 &pair)
{
    return reinterpret_cast<const int &>(pair);
}
#endif

template <typename Other> // another type would be converted, and the reference would be to that copy
__device__ const int4 &int4_at(const Other &) = delete;

template <typename Other>
__device__ const int &int_at(const Other &) = delete;
