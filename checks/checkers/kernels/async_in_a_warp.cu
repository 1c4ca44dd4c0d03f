// A warp reads what its lanes copied. broken: without __syncwarp() behind the wait.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    TILE;
    COPY(&tile[4 * t], A + 4 * t); // here: race
    COPY_COMMIT();
    COPY_WAIT(0);
    if (!BROKEN)
        __syncwarp();
    C[t] = tile[t / 32 * 128 + 127 - t % 32]; // here: race
}
KERNELS
