// Prefetch: bring numbers into the L2 cache before they are needed. It takes no register, and no warp waits.
//
//   prefetch<THREADS>(tile)     the threads 0 to THREADS - 1 of the block prefetch the tile together, a line each
//   prefetch_line(x)            this thread prefetches the line that holds x
//
// A line is 128 bytes. One request brings all of it, so a row of the tile must be whole lines. COLD_MEMORY.md explains
// when this helps.
#pragma once
#include "matrix.cuh"

__device__ inline void prefetch_line(const float &x)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(&x)));
}

template <int THREADS>
__device__ inline void prefetch(const Matrix<const float> &tile)
{
    constexpr int LINE = 32; // floats
    const int size = tile.rows * tile.cols;
    for (int first = 0; first < size; first += THREADS * LINE) {
        const int i = first + threadIdx.x * LINE;
        if (size % (THREADS * LINE) == 0 || i < size)
            prefetch_line(tile(i));
    }
}
