// A check of the kernel's own. broken: it fails.
extern "C" __global__ void broken(const float *A, float *C, int n)
{
    if (threadIdx.x >= n)
        __trap();                         // here: trap
    C[threadIdx.x] = A[threadIdx.x];
}

extern "C" __global__ void fixed(const float *A, float *C, int n)
{
    if (threadIdx.x >= 2 * n)
        __trap();
    C[threadIdx.x] = A[threadIdx.x];
}
