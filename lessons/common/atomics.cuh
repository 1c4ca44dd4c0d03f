// atomic_add<WIDTH>(to, x): WIDTH floats from `to` on += those from `x` on, each addition in one indivisible step.
//
//   atomic_add<4>(c(row, col), acc[i][j]);       four sums, one access of 128 bits
//
// From compute capability 9.0 on, 2 or 4 contiguous floats are one access; before, one access per float.
// `to` is in global memory, at a multiple of 4 * WIDTH bytes. Lesson 12 explains its use.
#pragma once
#include "floats.cuh"

template <int WIDTH>
__device__ inline void atomic_add(float &to, const float &x)
{
    const Floats<WIDTH> more = floats_at<WIDTH>(x);
#if __CUDA_ARCH__ >= 900
    if constexpr (WIDTH == 4)
        atomicAdd(reinterpret_cast<float4 *>(&to), make_float4(more.at[0], more.at[1], more.at[2], more.at[3]));
    else if constexpr (WIDTH == 2)
        atomicAdd(reinterpret_cast<float2 *>(&to), make_float2(more.at[0], more.at[1]));
    else
        atomicAdd(&to, more.at[0]);
#else
    for (int e = 0; e < WIDTH; e++)
        atomicAdd(&to + e, more.at[e]);
#endif
}
