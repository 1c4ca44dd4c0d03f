// Blocks add their part of a sum to one element. broken: by read, add, write; fixed: by atomics, which may meet.
extern "C" __global__ void broken(const float *A, float *C)
{
    const int i = threadIdx.x;
    C[i] += A[blockIdx.x * 64 + i];       // here: block_order
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    const int i = threadIdx.x;
    atomicAdd(&C[i], A[blockIdx.x * 64 + i]);
}
