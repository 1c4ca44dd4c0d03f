// broken: the last threads write past the end of all shared memory of the block.
extern "C" __global__ void broken(const float *A, float *C, int shift)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t + shift] = A[t];               // here: out_of_bounds
    __syncthreads();
    C[t] = tile[t];
}

extern "C" __global__ void fixed(const float *A, float *C, int shift)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[(t + shift) % 64] = A[t];
    __syncthreads();
    C[t] = tile[t];
}
