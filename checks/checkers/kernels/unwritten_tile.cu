// broken: only the first half of the tile is filled, all of it is read.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[128];
    const int t = threadIdx.x;
    if (t < 64)
        tile[t] = A[t];
    __syncthreads();
    C[t] = tile[127 - t];                 // here: uninitialised
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[128];
    const int t = threadIdx.x;
    tile[t] = A[t];
    __syncthreads();
    C[t] = tile[127 - t];
}
