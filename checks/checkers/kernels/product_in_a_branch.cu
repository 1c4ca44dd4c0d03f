// mma.sync is executed by a whole warp. broken: in a branch that some lanes do not take.
#include "phases.cuh"

template <bool BROKEN> __device__ __forceinline__ void go(const float *A, float *C)
{
    const int t = threadIdx.x;
    unsigned a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
    float d[4] = {A[t], 0, 0, 0};
    if (!BROKEN || A[t] > -100.0f * (t % 32 < 31))
        if (!BROKEN || t % 32 < 31)
            PRODUCT(d, a, b); // here: warp_mask
    C[t] = d[0];
}
KERNELS
