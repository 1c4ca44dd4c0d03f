// Threads store a tile that a bulk copy takes away. broken: it does not wait for the others' stores.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    tile[t] = A[t]; // here: race
    FENCE();
    if (!BROKEN)
        __syncthreads();
    if (t == 0) {
        STORE(C, tile, 256); // here: race
        COMMIT();
        DRAIN();
    }
}
KERNELS
