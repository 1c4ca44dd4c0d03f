// float4: four adjacent floats, read or written with one 128-bit access.
//
//   float4_at(x) is the float4 that starts at the float x, in any memory. The address of x must be a multiple of 16 bytes.
//
//   float4_at(As[row][col]) = float4_at(a_tile(row, col));     one 128-bit load, one 128-bit store
//
// Lesson 06 explains when this is allowed and what it saves.
#pragma once

__device__ inline float4 &float4_at(float &first)
{
    return reinterpret_cast<float4 &>(first);
}

__device__ inline const float4 &float4_at(const float &first)
{
    return reinterpret_cast<const float4 &>(first);
}

template <typename Other> // another type would be converted, and the reference would be to that copy
__device__ const float4 &float4_at(const Other &) = delete;
