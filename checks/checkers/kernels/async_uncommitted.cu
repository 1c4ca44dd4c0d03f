// cp.async.wait_group waits for groups that were committed. broken: this one was not.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    COPY(&tile[4 * t], A + 4 * t); // here: async_in_flight
    if (!BROKEN)
        COPY_COMMIT();
    COPY_WAIT(0);
    __syncthreads();
    C[t] = tile[255 - t]; // here: async_in_flight
}
KERNELS
