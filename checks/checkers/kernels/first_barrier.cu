// A tile is copied to shared memory and read by other warps. broken: nobody waits for the copy.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[128];
    const int t = threadIdx.x;
    tile[t] = A[t];                       // here: race
    C[t] = tile[127 - t];                 // here: race
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[128];
    const int t = threadIdx.x;
    tile[t] = A[t];
    __syncthreads();
    C[t] = tile[127 - t];
}
