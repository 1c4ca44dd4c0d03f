// broken: the guard lets one thread too many through; it writes one element past the end of C.
extern "C" __global__ void broken(const float *A, float *C, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        C[i] = i < n ? A[i] : 0.0f;       // here: out_of_bounds
}

extern "C" __global__ void fixed(const float *A, float *C, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        C[i] = A[i];
}
