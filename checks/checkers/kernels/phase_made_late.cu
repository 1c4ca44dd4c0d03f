// An mbarrier is made by one thread. broken: the others use it without a barrier behind that.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ mbarrier all;
    TILE;
    if (t == 0) {
        MAKE(&all, 64); // here: race
        MADE();
    }
    if (!BROKEN)
        __syncthreads();
    tile[t] = A[t];
    ARRIVE(&all); // here: race
    WAIT(&all, 0); // here: race
    C[t] = tile[63 - t];
}
KERNELS
