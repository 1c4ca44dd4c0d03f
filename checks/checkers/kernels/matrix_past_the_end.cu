// ldmatrix reads 32 rows. broken: the last of them lie behind shared memory.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(16) unsigned words[128];
    const int t = threadIdx.x;
    for (int i = t; i < 128; i += 64)
        words[i] = i;
    __syncthreads();
    unsigned r[4];
    MATRICES(r, &words[t % 32 * 4 + (BROKEN ? 4 : 0)]); // here: out_of_bounds
    C[t] = r[0] + r[1] + r[2] + r[3];
}
KERNELS
