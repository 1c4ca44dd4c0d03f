// A producer brings tile after tile. broken: it waits until its own copy has come, not until others have read.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ mbarrier empty;
    FULL;
    if (t == 0) {
        MAKE(&empty, 32);
        MADE();
    }
    __syncthreads();
    float sum = 0;
    if (t == 32) {
#pragma unroll 1
        for (int i = 0; i < 2; ++i) {
            if (i && BROKEN)
                WAIT(&full, 0);
            else
                WAIT(&empty, i + 1 & 1);
            EXPECT(&full, 1024);
            LOAD(tile, A + 256 * i, 1024, &full); // here: race
        }
    } else if (t < 32) {
#pragma unroll 1
        for (int i = 0; i < 2; ++i) {
            WAIT(&full, i & 1);
            sum += tile[255 - t]; // here: race
            ARRIVE(&empty);
        }
        C[t] = sum;
    }
}
KERNELS
