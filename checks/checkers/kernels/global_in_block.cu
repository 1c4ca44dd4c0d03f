// One block works on global memory in two steps. broken: no barrier between them.
extern "C" __global__ void broken(const float *A, float *T, float *C)
{
    T[threadIdx.x] = 2.0f * A[threadIdx.x];       // here: race
    C[threadIdx.x] = T[127 - threadIdx.x];        // here: race
}

extern "C" __global__ void fixed(const float *A, float *T, float *C)
{
    T[threadIdx.x] = 2.0f * A[threadIdx.x];
    __syncthreads();
    C[threadIdx.x] = T[127 - threadIdx.x];
}
