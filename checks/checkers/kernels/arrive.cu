// Warp 0 produces and only signals (bar.arrive); warp 1 waits (bar.sync) and consumes.
// broken: the producer signals before it has written.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[32];
    const int t = threadIdx.x;
    if (t < 32) {
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        tile[t] = A[t];                   // here: race
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        C[t - 32] = tile[63 - t];         // here: race
    }
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[32];
    const int t = threadIdx.x;
    if (t < 32) {
        tile[t] = A[t];
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        C[t - 32] = tile[63 - t];
    }
}
