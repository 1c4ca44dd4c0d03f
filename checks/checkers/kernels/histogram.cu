// Shared counters updated by atomics, which may meet. broken: they are read while others still count.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ int bins[8];
    const int t = threadIdx.x;
    if (t < 8)
        bins[t] = 0;
    __syncthreads();
    atomicAdd(&bins[((int)A[t] + t) & 7], 1);   // here: race
    if (t < 8)
        C[t] = (float)bins[t];                  // here: race
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ int bins[8];
    const int t = threadIdx.x;
    if (t < 8)
        bins[t] = 0;
    __syncthreads();
    atomicAdd(&bins[((int)A[t] + t) & 7], 1);
    __syncthreads();
    if (t < 8)
        C[t] = (float)bins[t];
}
