// The last block adds up what all blocks have left in T. fixed: a ticket tells which block is last, and fences order it.
// broken: the block with the highest number thinks that it is last.
extern "C" __global__ void broken(const float *A, float *T, float *C, unsigned *ticket)
{
    if (threadIdx.x == 0)
        T[blockIdx.x] = 2.0f * A[blockIdx.x];            // here: block_order
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = 0; i < gridDim.x; ++i)
            sum += T[i];                                 // here: block_order
        C[0] = sum;
    }
}

extern "C" __global__ void fixed(const float *A, float *T, float *C, unsigned *ticket)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        T[blockIdx.x] = 2.0f * A[blockIdx.x];
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        float sum = 0.0f;
        for (int i = 0; i < gridDim.x; ++i)
            sum += ((volatile float *)T)[i];
        C[0] = sum;
    }
}
