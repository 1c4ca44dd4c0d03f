// A phase ends when as many have arrived as were counted. broken: only half of the threads were counted.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ mbarrier all;
    TILE;
    if (t == 0) {
        MAKE(&all, BROKEN ? 32 : 64);
        MADE();
    }
    __syncthreads();
    tile[t] = A[t];
    ARRIVE(&all);
    WAIT(&all, 0); // here: deadlock
    C[t] = tile[63 - t];
}
KERNELS
