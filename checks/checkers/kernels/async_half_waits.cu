// cp.async: a wait is each thread's own. broken: only one warp waits.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    COPY(&tile[4 * t], A + 4 * t); // here: async_in_flight
    COPY_COMMIT();
    if (!BROKEN || t < 32)
        COPY_WAIT(0);
    __syncthreads();
    C[t] = tile[255 - t]; // here: async_in_flight
}
KERNELS
