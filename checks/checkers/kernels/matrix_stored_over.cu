// A warp stores matrices by stmatrix, another one reads them. broken: without a barrier between.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(16) unsigned words[128];
    const int t = threadIdx.x;
    unsigned r[4] = {1u * t, 2u * t, 3u * t, 4u * t};
    if (t < 32)
        BACK(&words[t * 4], r); // here: race
    if (!BROKEN)
        __syncthreads();
    C[t] = words[127 - t]; // here: race
}
KERNELS
