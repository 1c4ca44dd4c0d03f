// Rounds with one mbarrier each. broken: none between the reads and the next round's stores.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ mbarrier stored, read;
    TILE;
    if (t == 0) {
        MAKE(&stored, 64);
        MAKE(&read, 64);
        MADE();
    }
    __syncthreads();
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        tile[t] = A[64 * i + t]; // here: race
        ARRIVE(&stored);
        WAIT(&stored, i & 1);
        sum += tile[63 - t]; // here: race
        if (!BROKEN) {
            ARRIVE(&read);
            WAIT(&read, i & 1);
        }
    }
    C[t] = sum;
}
KERNELS
