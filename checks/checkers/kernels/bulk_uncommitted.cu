// cp.async.bulk.wait_group waits for groups that were committed. broken: this one was not.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    tile[t] = A[t];
    FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(C, tile, 256); // here: async_unfinished
        if (!BROKEN)
            COMMIT();
        DRAIN();
    }
}
KERNELS
