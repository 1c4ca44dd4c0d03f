// A thread's own array with an index that only the launch knows. broken: an element is read that was never set.
extern "C" __global__ void broken(const float *A, float *C, int first)
{
    float values[8];
    for (int i = first; i < 8; ++i)
        values[(i + threadIdx.x) % 8] = A[i];
    C[threadIdx.x] = values[(first + 7 + threadIdx.x) % 8];   // here: uninitialised
}

extern "C" __global__ void fixed(const float *A, float *C, int first)
{
    float values[8];
    for (int i = first - 1; i < 7; ++i)
        values[(i + threadIdx.x) % 8] = A[i];
    values[(threadIdx.x + 7) % 8] = 1.0f;
    C[threadIdx.x] = values[(first + 7 + threadIdx.x) % 8];
}
