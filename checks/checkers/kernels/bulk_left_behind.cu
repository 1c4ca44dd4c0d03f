// A block's last bulk copy. broken: the thread ends before its shared memory was read.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    tile[t] = A[t];
    FENCE();
    __syncthreads();
    if (t == 0) {
        STORE(C, tile, 256); // here: async_unfinished
        COMMIT();
        if (!BROKEN)
            DRAIN();
    }
}
KERNELS
