// Threads store a tile that a bulk copy takes away. broken: only one of them has a fence.proxy.async.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    tile[t] = A[t];
    if (!BROKEN || t == 0)
        FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(C, tile, 256); // here: async_proxy
        COMMIT();
        DRAIN();
    }
}
KERNELS
