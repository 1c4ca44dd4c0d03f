// broken: a block reads what its neighbour has just written, if it has: the answer depends on the order of blocks.
extern "C" __global__ void broken(const float *A, float *C)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    C[i] = A[i];                                          // here: block_order
    if (blockIdx.x > 0)
        C[i + 256] = C[i - 64];                           // here: block_order
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    C[i] = A[i];
    if (blockIdx.x > 0)
        C[i + 256] = A[i - 64];
}
