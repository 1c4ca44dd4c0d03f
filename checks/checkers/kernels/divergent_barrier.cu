// broken: half of each warp waits at the barrier inside the if, the other half passes by.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    if (t % 32 < 16) {
        __syncthreads();                  // here: divergent_barrier
        C[t] = 1.0f;
    }
    __syncthreads();                      // here: divergent_barrier
    C[t] = tile[63 - t];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    __syncthreads();
    if (t % 32 < 16)
        C[t] = 1.0f;
    __syncthreads();
    C[t] = tile[63 - t];
}
