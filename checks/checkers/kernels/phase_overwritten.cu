// An mbarrier lies beside a thread's slots. broken: one store goes over it.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    __shared__ __align__(8) unsigned slots[66];
    const int t = threadIdx.x;
    mbarrier *all = (mbarrier *)&slots[64];
    if (t == 0) {
        MAKE(all, 64);
        MADE();
    }
    __syncthreads();
    slots[t + (BROKEN && t == 63)] = t; // here: mbarrier
    __syncthreads();
    ARRIVE(all); // here: mbarrier
    WAIT(all, 0); // here: mbarrier
    C[t] = slots[t == 63 ? 0 : t];
}
KERNELS
