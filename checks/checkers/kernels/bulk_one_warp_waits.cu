// One warp waits for the copy, both read it. broken: without __syncthreads() between.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    if (t == 0) {
        EXPECT(&full, 1024);
        LOAD(tile, A, 1024, &full); // here: async_in_flight
    }
    if (t < 32)
        WAIT(&full, 0);
    if (!BROKEN)
        __syncthreads();
    C[t] = tile[255 - t]; // here: async_in_flight
}
KERNELS
