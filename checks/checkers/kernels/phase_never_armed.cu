// A copy reports its bytes to a phase that announced them. broken: it was only arrived at.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    if (t == 0) {
        if (BROKEN)
            ARRIVE(&full);
        else
            EXPECT(&full, 1024);
        LOAD(tile, A, 1024, &full); // here: async_in_flight
    }
    WAIT(&full, 0);
    C[t] = tile[255 - t]; // here: async_in_flight
}
KERNELS
