// Lanes of one warp exchange numbers through shared memory. broken: the warp may have split; nothing brings it together.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x, first = t / 32 * 32;
    tile[t] = A[t];                       // here: race
    C[t] = tile[first + 31 - t % 32];     // here: race
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x, first = t / 32 * 32;
    tile[t] = A[t];
    __syncwarp();
    C[t] = tile[first + 31 - t % 32];
}
