// broken: the barrier expects three warps, only two come. On hardware the kernel hangs.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    if (t < 64) {
        tile[t] = A[t];
        asm volatile("bar.sync 1, 96;" ::: "memory");   // here: deadlock
        C[t] = tile[63 - t];
    }
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    if (t < 64) {
        tile[t] = A[t];
        asm volatile("bar.sync 1, 64;" ::: "memory");
        C[t] = tile[63 - t];
    }
}
