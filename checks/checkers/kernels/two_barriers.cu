// broken: warp 0 waits at barrier 0 for the block, warp 1 at barrier 1: neither ever comes.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    if (t < 32)
        asm volatile("bar.sync 0, 64;" ::: "memory");   // here: deadlock
    else
        asm volatile("bar.sync 1, 64;" ::: "memory");   // here: deadlock
    C[t] = tile[63 - t];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    C[t] = tile[63 - t];
}
