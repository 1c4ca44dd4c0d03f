// Bulk copies begin at multiples of 16 bytes. broken: at an odd float.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    if (t == 0) {
        EXPECT(&full, 512);
        LOAD(tile, A + (BROKEN ? 1 : 4), 512, &full); // here: misaligned
    }
    WAIT(&full, 0);
    C[t] = tile[127 - t];
}
KERNELS
