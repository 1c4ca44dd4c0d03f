// A producer waits until its stage is empty. broken: the consumers never say so.
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
        for (int i = 0; i < 3; ++i) {
            WAIT(&empty, i + 1 & 1); // here: deadlock
            EXPECT(&full, 1024);
            LOAD(tile, A + 256 * i, 1024, &full);
        }
    } else if (t < 32) {
#pragma unroll 1
        for (int i = 0; i < 3; ++i) {
            WAIT(&full, i & 1); // here: deadlock
            sum += tile[255 - t];
            if (!BROKEN)
                ARRIVE(&empty);
        }
        C[t] = sum;
    }
}
KERNELS
