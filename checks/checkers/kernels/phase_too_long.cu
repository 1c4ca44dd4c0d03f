// A phase waits for the bytes that were announced. broken: more were than come.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    if (t == 0) {
        EXPECT(&full, BROKEN ? 2048 : 1024); // here: deadlock
        LOAD(tile, A, 1024, &full); // here: deadlock
    }
    WAIT(&full, 0); // here: deadlock
    C[t] = tile[255 - t];
}
KERNELS
