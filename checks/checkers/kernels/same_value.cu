// broken: many threads set the same flag to the same value. Harmless on hardware; still worth a note.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ int found;
    const int t = threadIdx.x;
    if (t == 0)
        found = 0;
    __syncthreads();
    if (A[t] > -1000.0f)
        found = 1;                        // here: race
    __syncthreads();
    C[t] = (float)found;
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ int found;
    const int t = threadIdx.x;
    const int any = __syncthreads_or(A[t] > -1000.0f);
    if (t == 0)
        found = any;
    __syncthreads();
    C[t] = (float)found;
}
