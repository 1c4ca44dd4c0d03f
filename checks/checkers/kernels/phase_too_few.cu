// A phase ends when as many have arrived as were counted. broken: one thread does not arrive.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ mbarrier all;
    TILE;
    if (t == 0) {
        MAKE(&all, 64);
        MADE();
    }
    __syncthreads();
    tile[t] = A[t];
    if (!BROKEN || t != 9)
        ARRIVE(&all);
    WAIT(&all, 0); // here: deadlock
    C[t] = tile[63 - t];
}
KERNELS
