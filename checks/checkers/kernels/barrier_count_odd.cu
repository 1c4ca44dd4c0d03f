// broken: a thread count that is no multiple of the warp size is not allowed.
extern "C" __global__ void broken(const float *A, float *C, int count)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    asm volatile("bar.sync 1, %0;" : : "r"(count - 16) : "memory");   // here: barrier_count
    C[t] = tile[63 - t];
}

extern "C" __global__ void fixed(const float *A, float *C, int count)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    asm volatile("bar.sync 1, %0;" : : "r"(count) : "memory");
    C[t] = tile[63 - t];
}
