// A thread clears its place and fills it by cp.async. broken: the other way round, while the copy is in flight.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    if (!BROKEN)
        tile[4 * t] = 0;
    COPY(&tile[4 * t], A + 4 * t); // here: async_in_flight
    if (BROKEN)
        tile[4 * t] = 0; // here: async_in_flight
    COPY_COMMIT();
    COPY_WAIT(0);
    __syncthreads();
    C[t] = tile[255 - t];
}
KERNELS
