// Two rounds through one stage. broken: both wait for the same parity, so the second does not wait.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    FULL;
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
        if (t == 0) {
            EXPECT(&full, 1024);
            LOAD(tile, A + 256 * i, 1024, &full); // here: async_in_flight
        }
        __syncthreads();
        WAIT(&full, BROKEN ? 0 : i);
        sum += tile[255 - t]; // here: async_in_flight
        __syncthreads();
    }
    C[t] = sum;
}
KERNELS
