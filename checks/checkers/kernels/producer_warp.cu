// Warp 0 writes what warp 1 reads, each in its own branch. Run in lockstep, the writer always comes first: broken all the same.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp == 0)
        tile[lane] = A[lane];             // here: race
    if (warp == 1)
        C[lane] = tile[31 - lane];        // here: race
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp == 0)
        tile[lane] = A[lane];
    __syncthreads();
    if (warp == 1)
        C[lane] = tile[31 - lane];
}
