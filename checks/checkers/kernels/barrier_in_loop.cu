// broken: threads of one warp go round a loop with a barrier different numbers of times, then end.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < 1 + t % 4; ++i) {
        __syncthreads();                  // here: exited_before_barrier
        sum += tile[(t + i) % 64];
    }
    C[t] = sum;
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = A[t];
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        __syncthreads();
        if (i < 1 + t % 4)
            sum += tile[(t + i) % 64];
    }
    C[t] = sum;
}
