// Dynamic shared memory. broken: launched with half of the bytes that it uses (both kernels are the same code).
extern __shared__ float tile[];

extern "C" __global__ void broken(const float *A, float *C)
{
    const int t = threadIdx.x;
    tile[t] = A[t];                       // here: out_of_bounds
    __syncthreads();
    C[t] = tile[63 - t];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    const int t = threadIdx.x;
    tile[t] = A[t];
    __syncthreads();
    C[t] = tile[63 - t];
}
