// cp.async: the newest group is in flight still when the last tile is read. broken: one group is left.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(16) float stage[2][256];
    const int t = threadIdx.x;
    COPY(&stage[0][4 * t], A + 4 * t); // here: async_in_flight
    COPY_COMMIT();
    COPY(&stage[1][4 * t], A + 256 + 4 * t); // here: async_in_flight
    COPY_COMMIT();
    COPY_WAIT(1);
    __syncthreads();
    float sum = stage[0][255 - t];
    COPY_WAIT(BROKEN ? 1 : 0);
    __syncthreads();
    sum += stage[1][255 - t]; // here: async_in_flight
    C[t] = sum;
}
KERNELS
