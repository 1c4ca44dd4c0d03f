// A guard at the top of a kernel with barriers. broken: threads outside the matrix leave, in the middle of a warp.
extern "C" __global__ void broken(const float *A, float *C, int n)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    if (t >= n)
        return;
    tile[t] = A[t];
    __syncthreads();                      // here: exited_before_barrier
    C[t] = tile[n - 1 - t];
}

extern "C" __global__ void fixed(const float *A, float *C, int n)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    if (t < n)
        tile[t] = A[t];
    __syncthreads();
    if (t < n)
        C[t] = tile[n - 1 - t];
}
