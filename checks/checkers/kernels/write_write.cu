// broken: threads t and t + 64, of different warps, write the same element with different numbers.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t % 64] = A[t];                  // here: race
    __syncthreads();
    C[t] = tile[t % 64];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[128];
    const int t = threadIdx.x;
    tile[t] = A[t];
    __syncthreads();
    C[t] = tile[t % 64];
}
