// One stage of cp.async, filled again in each round. broken: while others still read it.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        COPY(&tile[4 * t], A + 256 * i + 4 * t); // here: race
        COPY_COMMIT();
        COPY_WAIT(0);
        __syncthreads();
        sum += tile[255 - t]; // here: race
        if (!BROKEN)
            __syncthreads();
    }
    C[t] = sum;
}
KERNELS
