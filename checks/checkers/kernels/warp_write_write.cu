// broken: neighbouring lanes write the same element in one instruction; which number stays is not defined.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[32];
    const int t = threadIdx.x;
    tile[t / 2] = A[t];                   // here: race
    __syncthreads();
    C[t] = tile[t / 2];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[32];
    const int t = threadIdx.x;
    if (t % 2 == 1)
        tile[t / 2] = A[t];
    __syncthreads();
    C[t] = tile[t / 2];
}
