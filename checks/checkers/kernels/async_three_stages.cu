// Three stages, two groups ahead. broken: no barrier between the wait and the reads of others' copies.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(16) float stage[3][256];
    const int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 2; ++i) {
        COPY(&stage[i][4 * t], A + 256 * i + 4 * t); // here: race
        COPY_COMMIT();
    }
#pragma unroll 1
    for (int i = 0; i < 6; ++i) {
        COPY_WAIT(1);
        if (!BROKEN)
            __syncthreads();
        if (i < 4)
            COPY(&stage[(i + 2) % 3][4 * t], A + 256 * (i + 2) + 4 * t); // here: race
        COPY_COMMIT();
        sum += stage[i % 3][255 - t]; // here: race
    }
    C[t] = sum;
}
KERNELS
