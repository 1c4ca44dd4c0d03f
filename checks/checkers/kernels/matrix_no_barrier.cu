// Warps read by ldmatrix what the other one stored. broken: without __syncthreads() between.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(16) unsigned words[256];
    const int t = threadIdx.x;
    for (int i = t; i < 256; i += 64)
        words[i] = i; // here: race
    if (!BROKEN)
        __syncthreads();
    unsigned r[4];
    MATRICES(r, &words[t * 4 % 256]); // here: race
    C[t] = r[0] + r[1] + r[2] + r[3];
}
KERNELS
