// Bulk copies have a multiple of 16 bytes. broken: not this one.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    if (t == 0) {
        EXPECT(&full, BROKEN ? 1000 : 1008);
        LOAD(tile, A, BROKEN ? 1000 : 1008, &full); // here: misaligned
    }
    WAIT(&full, 0);
    C[t] = tile[127 - t];
}
KERNELS
