// broken: the two warps of a block meet at two different __syncthreads().
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    if (t < 32) {
        C[t + 64] = 1.0f;
        __syncthreads();                  // here: divergent_barrier
        C[t] = tile[63 - t] + 1.0f;
    } else {
        C[t + 64] = 2.0f;
        __syncthreads();                  // here: divergent_barrier
        C[t] = tile[63 - t] * 2.0f;
    }
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    if (t < 32)
        C[t + 64] = 1.0f;
    else
        C[t + 64] = 2.0f;
    __syncthreads();
    if (t < 32)
        C[t] = tile[63 - t] + 1.0f;
    else
        C[t] = tile[63 - t] * 2.0f;
}
