// A bulk copy of a whole tile. broken: its last bytes lie behind the array.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    if (t == 0) {
        EXPECT(&full, 1024);
        LOAD(tile, A + (BROKEN ? 2048 - 128 : 2048 - 256), 1024, &full); // here: out_of_bounds
    }
    WAIT(&full, 0);
    C[t] = tile[127 - t];
}
KERNELS
