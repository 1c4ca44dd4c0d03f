// Threads meet at an mbarrier. broken: nobody has made it.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ mbarrier all;
    TILE;
    if (t == 0 && !BROKEN) {
        MAKE(&all, 64);
        MADE();
    }
    __syncthreads();
    tile[t] = A[t];
    ARRIVE(&all); // here: mbarrier
    WAIT(&all, 0);
    C[t] = tile[63 - t];
}
KERNELS
