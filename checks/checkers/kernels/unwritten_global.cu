// C = A + C. broken: C is read although nobody has given it a value (both kernels are launched on a fresh C).
extern "C" __global__ void broken(const float *A, float *C)
{
    C[threadIdx.x] += A[threadIdx.x];     // here: uninitialised
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    C[threadIdx.x] = A[threadIdx.x];
    C[threadIdx.x] += A[threadIdx.x + 32];
}
