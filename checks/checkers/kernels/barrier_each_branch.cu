// broken: the two halves of every warp meet at two different __syncthreads().
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    if (t % 2) {
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
    C[t + 64] = t % 2 ? 1.0f : 2.0f;
    __syncthreads();
    C[t] = t % 2 ? tile[63 - t] + 1.0f : tile[63 - t] * 2.0f;
}
