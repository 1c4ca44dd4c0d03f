// Sums and maxima.

extern "C" __global__ void tree(int n, const float *x, float *sums)
{
    __shared__ float part[256];
    int tid = threadIdx.x, i = blockIdx.x * blockDim.x + tid;
    part[tid] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int s = 1; s < blockDim.x; s *= 2) {
        if (tid % (2 * s) == 0)
            part[tid] += part[tid + s];
        __syncthreads();
    }
    if (tid == 0)
        sums[blockIdx.x] = part[0];
}

__device__ float of_warp(float sum)
{
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    return sum;
}

extern "C" __global__ void strided_sum(int n, const float *x, float *sums)
{
    __shared__ float part[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    sum = of_warp(sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = of_warp(threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0)
            sums[blockIdx.x] = sum;
    }
}

extern "C" __global__ void by_atomics(int n, const float *x, float *total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = of_warp(i < n ? x[i] : 0.0f);
    if (threadIdx.x % 32 == 0)
        atomicAdd(total, sum);
}

extern "C" __global__ void columns(int rows, int cols, const float *x, float *sums)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int row = 0; row < rows; ++row)
        sum += x[row * cols + col];
    sums[col] = sum;
}

extern "C" __global__ void dot4(int n4, const float4 *x, const float4 *y, float *sums)
{
    __shared__ float part[8];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += gridDim.x * blockDim.x) {
        float4 a = x[i], b = y[i];
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    sum = of_warp(sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; ++warp)
            sum += part[warp];
        sums[blockIdx.x] = sum;
    }
}

extern "C" __global__ void row_maxima(int rows, int cols, const float *x, float *maxima)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float best = -1e30f;
    for (int col = lane; col < cols; col += 32)
        best = fmaxf(best, x[row * cols + col]);
    for (int offset = 16; offset > 0; offset /= 2)
        best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, offset));
    if (lane == 0)
        maxima[row] = best;
}
