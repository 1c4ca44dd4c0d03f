// broken: bias is a null pointer and is read without a look.
extern "C" __global__ void broken(const float *A, const float *bias, float *C)
{
    C[threadIdx.x] = A[threadIdx.x] + bias[threadIdx.x];   // here: out_of_bounds
}

extern "C" __global__ void fixed(const float *A, const float *bias, float *C)
{
    float value = A[threadIdx.x];
    if (bias != nullptr)
        value += bias[threadIdx.x];
    C[threadIdx.x] = value;
}
