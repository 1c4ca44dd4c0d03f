// broken: a thread's own array of 8 is indexed far behind its end.
extern "C" __global__ void broken(const float *A, float *C, int far)
{
    float values[8];
    for (int i = 0; i < 8; ++i)
        values[(i + threadIdx.x) % 8] = A[i];
    C[threadIdx.x] = values[threadIdx.x % 8 + far];   // here: out_of_bounds
}

extern "C" __global__ void fixed(const float *A, float *C, int far)
{
    float values[8];
    for (int i = 0; i < 8; ++i)
        values[(i + threadIdx.x) % 8] = A[i];
    C[threadIdx.x] = values[(threadIdx.x + far) % 8];
}
