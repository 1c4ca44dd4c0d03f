// A tree reduction of 256 numbers. broken: no barrier between two levels of the tree.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float sums[256];
    const int t = threadIdx.x;
    sums[t] = A[t];
    __syncthreads();
#pragma unroll 1
    for (int s = 128; s > 0; s /= 2) {
        if (t < s)
            sums[t] += sums[t + s];       // here: race
    }
    __syncthreads();
    if (t == 0)
        C[0] = sums[0];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float sums[256];
    const int t = threadIdx.x;
    sums[t] = A[t];
    __syncthreads();
#pragma unroll 1
    for (int s = 128; s > 0; s /= 2) {
        if (t < s)
            sums[t] += sums[t + s];
        __syncthreads();
    }
    if (t == 0)
        C[0] = sums[0];
}
