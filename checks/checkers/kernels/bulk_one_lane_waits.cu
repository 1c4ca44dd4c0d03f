// One lane of each warp waits for the copy, then the warp reads. broken: without __syncwarp() between.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    if (t == 0) {
        EXPECT(&full, 1024);
        LOAD(tile, A, 1024, &full); // here: async_in_flight
    }
    if (t % 32 == 0)
        WAIT(&full, 0);
    if (!BROKEN)
        __syncwarp();
    C[t] = tile[255 - t]; // here: async_in_flight
}
KERNELS
