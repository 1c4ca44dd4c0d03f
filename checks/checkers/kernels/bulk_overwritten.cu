// A tile goes out, and the next is stored in its place. broken: while the copy may still read the first.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    tile[t] = A[t];
    FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(C, tile, 128); // here: async_in_flight
        COMMIT();
        if (!BROKEN)
            DRAIN();
    }
    __syncthreads();
    tile[t] = A[64 + t]; // here: async_in_flight
    FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(C + 32, tile, 128);
        COMMIT();
        DRAIN();
    }
}
KERNELS
