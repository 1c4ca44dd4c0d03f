// A copy reports to an mbarrier that was just made. broken: no fence lets the copy see that.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ mbarrier full;
    TILE;
    if (t == 0) {
        MAKE(&full, 1); // here: async_proxy
        if (!BROKEN)
            MADE();
    }
    __syncthreads();
    if (t == 0) {
        EXPECT(&full, 1024);
        LOAD(tile, A, 1024, &full); // here: async_proxy
    }
    WAIT(&full, 0);
    C[t] = tile[255 - t];
}
KERNELS
