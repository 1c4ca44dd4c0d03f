// A bulk copy's bytes are there when its phase is over. broken: nobody waits before they are read.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    if (t == 0) {
        EXPECT(&full, 1024);
        LOAD(tile, A, 1024, &full); // here: async_in_flight
    }
    if (!BROKEN)
        WAIT(&full, 0);
    C[t] = tile[255 - t]; // here: async_in_flight
    WAIT(&full, 0);
}
KERNELS
