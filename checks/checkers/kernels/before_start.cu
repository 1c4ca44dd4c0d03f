// A difference of neighbours. broken: thread 0 reads the element before the first.
extern "C" __global__ void broken(const float *A, float *C)
{
    const int i = threadIdx.x;
    C[i] = A[i] - A[i - 1];               // here: out_of_bounds
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    const int i = threadIdx.x;
    C[i] = A[i] - (i > 0 ? A[i - 1] : 0.0f);
}
