// broken: only warp 0 reaches the barrier; the other ends without it.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    if (t < 32) {
        __syncthreads();                  // here: exited_before_barrier
        C[t] = tile[t];
    }
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    __syncthreads();
    if (t < 32)
        C[t] = tile[t];
}
