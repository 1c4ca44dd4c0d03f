// Counts of values.

extern "C" __global__ void global_bins(int n, int bins, const unsigned *x, int *counts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[(x[i] * 2654435761u >> 8) % bins], 1);
}

extern "C" __global__ void shared_bins(int n, const unsigned *x, int *counts)
{
    __shared__ int own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&own[x[i] * 2654435761u >> 24], 1);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

extern "C" __global__ void warp_bins(int n, const unsigned *x, int *counts)
{
    __shared__ int own[8][256];
    int warp = threadIdx.x / 32;
    for (int w = 0; w < 8; ++w)
        own[w][threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&own[warp][x[i] * 2654435761u >> 24], 1);
    __syncthreads();
    int sum = 0;
    for (int w = 0; w < 8; ++w)
        sum += own[w][threadIdx.x];
    atomicAdd(&counts[threadIdx.x], sum);
}
