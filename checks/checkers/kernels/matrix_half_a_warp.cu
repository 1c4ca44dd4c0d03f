// ldmatrix is executed by a whole warp. broken: by its lower half.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(16) unsigned words[512];
    const int t = threadIdx.x;
    for (int i = t; i < 512; i += 64)
        words[i] = i;
    __syncthreads();
    unsigned r[4] = {0, 0, 0, 0};
    if (!BROKEN || t % 32 < 16)
        MATRICES(r, &words[t % 32 * 4]); // here: warp_mask
    C[t] = r[0] + r[1] + r[2] + r[3];
}
KERNELS
