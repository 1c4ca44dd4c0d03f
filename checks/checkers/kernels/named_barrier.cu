// Warps 0 and 1 share a tile and meet at named barrier 1; warps 2 and 3 do something else.
// broken: each of the two warps meets at a barrier of its own.
__device__ __forceinline__ void meet(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    if (t < 32) {
        tile[t] = A[t];                   // here: race
        meet(1, 32);
        C[t] = tile[t + 32];              // here: race
    } else if (t < 64) {
        tile[t] = A[t];                   // here: race
        meet(2, 32);
        C[t] = tile[t - 32];              // here: race
    } else {
        C[t] = A[t];
    }
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    if (t < 64) {
        tile[t] = A[t];
        meet(1, 64);
        C[t] = tile[63 - t];
    } else {
        C[t] = A[t];
    }
}
