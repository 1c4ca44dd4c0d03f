// The same with whole warps. broken: warp 1 returns before the barrier that warp 0 waits at.
extern "C" __global__ void broken(const float *A, float *C, int n)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    if (t >= n)
        return;
    tile[t] = A[t];
    __syncthreads();                      // here: exited_before_barrier
    C[t] = tile[31 - t];
}

extern "C" __global__ void fixed(const float *A, float *C, int n)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    __syncthreads();
    if (t >= n)
        return;
    C[t] = tile[31 - t];
}
