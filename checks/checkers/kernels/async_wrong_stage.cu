// Two stages of cp.async. broken: the next tile goes to the stage that is being read.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(16) float stage[2][256];
    const int t = threadIdx.x;
    float sum = 0;
    COPY(&stage[0][4 * t], A + 4 * t);
    COPY_COMMIT();
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        COPY_WAIT(0);
        __syncthreads();
        if (i < 3)
            COPY(&stage[BROKEN ? i % 2 : (i + 1) % 2][4 * t], A + 256 * (i + 1) + 4 * t); // here: async_in_flight
        COPY_COMMIT();
        sum += stage[i % 2][255 - t]; // here: async_in_flight
    }
    COPY_WAIT(0);
    C[t] = sum;
}
KERNELS
