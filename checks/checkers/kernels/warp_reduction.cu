// The last levels of a reduction inside one warp. broken: read and write of one level, and of two, are not kept apart.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ volatile float sums[64];
    const int t = threadIdx.x;
    sums[t] = A[t];
    __syncthreads();
    if (t < 32) {
        sums[t] = sums[t] + sums[t + 32]; // here: race
        sums[t] = sums[t] + sums[t + 16]; // here: race
        sums[t] = sums[t] + sums[t + 8];  // here: race
    }
    __syncthreads();
    if (t < 8)
        C[t] = sums[t];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ volatile float sums[64];
    const int t = threadIdx.x;
    sums[t] = A[t];
    __syncthreads();
    if (t < 32) {
        float v = sums[t] + sums[t + 32];
        __syncwarp();
        sums[t] = v;
        __syncwarp();
        v += t < 16 ? sums[t + 16] : 0.0f;
        __syncwarp();
        sums[t] = v;
        __syncwarp();
        v += t < 8 ? sums[t + 8] : 0.0f;
        __syncwarp();
        sums[t] = v;
    }
    __syncthreads();
    if (t < 8)
        C[t] = sums[t];
}
