// Threads store a tile that a bulk copy takes away. broken: without fence.proxy.async the copy may not see it.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    tile[t] = A[t];
    if (!BROKEN)
        FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(C, tile, 256); // here: async_proxy
        COMMIT();
        DRAIN();
    }
}
KERNELS
