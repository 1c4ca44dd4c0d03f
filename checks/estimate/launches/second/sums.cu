// Sums, scans, counts, sorts.

__device__ float of_block(float sum)
{
    __shared__ float part[32];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32)
        for (int offset = 16; offset > 0; offset /= 2)
            sum += __shfl_down_sync(~0u, sum, offset);
    return sum;
}

// Each block has 4096 elements: four vectors a thread.
extern "C" __global__ void first_stage(const float4 *x, float *sums)
{
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        float4 v = x[blockIdx.x * 1024 + j * 256 + threadIdx.x];
        sum += v.x + v.y + v.z + v.w;
    }
    sum = of_block(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

// The last block adds the sums of all.
extern "C" __global__ void last_block_adds(int n, const float *x, float *sums, unsigned *ended, float *total)
{
    __shared__ bool last;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i] * x[i];
    sum = of_block(sum);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(ended, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    sum = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x)
        sum += ((volatile float *)sums)[i];
    sum = of_block(sum);
    if (threadIdx.x == 0)
        *total = sum;
}

// Prefix sums of each row by one thread.
extern "C" __global__ void row_scan(int rows, int cols, const float *x, float *y)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int col = 0; col < cols; ++col)
        y[row * cols + col] = sum += x[row * cols + col];
}

// The same by a warp.
extern "C" __global__ void row_scan_warp(int rows, int cols, const float *x, float *y)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows)
        return;
    float before = 0.0f;
    for (int col = lane; col < cols; col += 32) {
        float v = x[row * cols + col];
        for (int offset = 1; offset < 32; offset *= 2) {
            float other = __shfl_up_sync(~0u, v, offset);
            v += lane >= offset ? other : 0.0f;
        }
        y[row * cols + col] = v += before;
        before = __shfl_sync(~0u, v, 31);
    }
}

// 64 bins, each thread's counters are bytes: 256 threads x 64 bins.
extern "C" __global__ void byte_bins(int n, const unsigned *x, unsigned *counts)
{
    __shared__ unsigned char own[64][256];
    int tid = threadIdx.x;
    for (int i = tid; i < 64 * 64; i += 256)
        ((unsigned *)own)[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + tid; i < n; i += gridDim.x * 256)
        own[x[i] * 2654435761u >> 26][tid]++;
    __syncthreads();
    if (tid < 64) {
        unsigned sum = 0;
        for (int j = 0; j < 256; ++j)
            sum += own[tid][(j + tid) % 256];
        atomicAdd(&counts[tid], sum);
    }
}

// 64 bins in global memory; neighbours have equal values, in runs of four.
extern "C" __global__ void run_bins(int n, const unsigned *x, unsigned *counts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[(x[i] >> 2) * 2654435761u >> 26], 1);
}

// The same; lanes with equal values add once.
extern "C" __global__ void run_bins_matched(int n, const unsigned *x, unsigned *counts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned bin = (x[i] >> 2) * 2654435761u >> 26, same = __match_any_sync(__activemask(), bin);
    if (threadIdx.x % 32 == __ffs(same) - 1)
        atomicAdd(&counts[bin], __popc(same));
}

// Batcher's odd-even merge sort of 512 keys with their values.
extern "C" __global__ void odd_even(const unsigned *keys, unsigned *sorted, unsigned *places)
{
    __shared__ unsigned key[512], value[512];
    int tid = threadIdx.x, base = blockIdx.x * 512;
    for (int i = tid; i < 512; i += 256)
        key[i] = keys[base + i] * 2654435761u, value[i] = base + i;
    for (int size = 2; size <= 512; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int at = 2 * tid - (tid & (stride - 1)), other = at + stride;
            if (stride < size / 2) {
                other = at;
                at -= stride;
                if ((tid & (size / 2 - 1)) < stride)
                    continue;
            }
            if (key[at] > key[other]) {
                unsigned k = key[at], v = value[at];
                key[at] = key[other], value[at] = value[other];
                key[other] = k, value[other] = v;
            }
        }
    __syncthreads();
    for (int i = tid; i < 512; i += 256)
        sorted[base + i] = key[i], places[base + i] = value[i];
}
