// A tile is stored, read by ldmatrix, stored again. broken: the next tile over one that is still read.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(16) unsigned words[128];
    const int t = threadIdx.x;
    unsigned sum = 0, r[4];
#pragma unroll 1
    for (int i = 0; i < 3; ++i) {
        words[t] = i + t; // here: race
        words[64 + t] = i - t; // here: race
        __syncthreads();
        MATRICES(r, &words[t % 32 * 4]); // here: race
        sum += r[0] + r[3];
        if (!BROKEN)
            __syncthreads();
    }
    C[t] = sum;
}
KERNELS
