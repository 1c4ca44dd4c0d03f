// broken: blocks 0 and 1 both write the middle of C, with different numbers.
extern "C" __global__ void broken(const float *A, float *C)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    C[i] = A[threadIdx.x] + blockIdx.x;   // here: race
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    C[i] = A[threadIdx.x] + blockIdx.x;
}
