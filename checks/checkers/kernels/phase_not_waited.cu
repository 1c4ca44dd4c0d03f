// Half of the threads read what the others stored. broken: they arrive, but do not wait.
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
    tile[t] = A[t]; // here: race
    ARRIVE(&all);
    if (!BROKEN || t < 32)
        WAIT(&all, 0);
    C[t] = tile[63 - t]; // here: race
}
KERNELS
