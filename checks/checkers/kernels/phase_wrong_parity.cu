// The first phase has parity 0. broken: threads wait for parity 1, which who comes early passes, and who comes late never.
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
    ARRIVE(&all);
    WAIT(&all, BROKEN); // here: deadlock
    C[t] = tile[63 - t];
}
KERNELS
