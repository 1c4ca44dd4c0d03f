// Prefix sums of the elements of a block, and of an array.

extern "C" __global__ void hillis_steele(const float *x, float *y)
{
    __shared__ float part[2][1024];
    int tid = threadIdx.x, i = blockIdx.x * 1024 + tid, now = 0;
    part[0][tid] = x[i];
    __syncthreads();
    for (int s = 1; s < 1024; s *= 2) {
        part[1 - now][tid] = part[now][tid] + (tid >= s ? part[now][tid - s] : 0.0f);
        now = 1 - now;
        __syncthreads();
    }
    y[i] = part[now][tid];
}

extern "C" __global__ void blelloch(const float *x, float *y)
{
    __shared__ float part[1024];
    int tid = threadIdx.x, offset = 1;
    const float *from = x + blockIdx.x * 1024;
    part[2 * tid] = from[2 * tid];
    part[2 * tid + 1] = from[2 * tid + 1];
    for (int d = 512; d > 0; d /= 2) {
        __syncthreads();
        if (tid < d)
            part[offset * (2 * tid + 2) - 1] += part[offset * (2 * tid + 1) - 1];
        offset *= 2;
    }
    if (tid == 0)
        part[1023] = 0.0f;
    for (int d = 1; d < 1024; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (tid < d) {
            int left = offset * (2 * tid + 1) - 1, right = offset * (2 * tid + 2) - 1;
            float t = part[left];
            part[left] = part[right];
            part[right] += t;
        }
    }
    __syncthreads();
    y[blockIdx.x * 1024 + 2 * tid] = part[2 * tid];
    y[blockIdx.x * 1024 + 2 * tid + 1] = part[2 * tid + 1];
}

extern "C" __global__ void by_shuffles(const float4 *x, float4 *y)
{
    __shared__ float sums[8];
    int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float4 v = x[i];
    v.y += v.x, v.z += v.y, v.w += v.z;
    float sum = v.w;
    for (int offset = 1; offset < 32; offset *= 2) {
        float other = __shfl_up_sync(0xffffffff, sum, offset);
        if (lane >= offset)
            sum += other;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    float before = sum - v.w;
    for (int w = 0; w < warp; ++w)
        before += sums[w];
    y[i] = make_float4(v.x + before, v.y + before, v.z + before, v.w + before);
}

// Each block waits for the one before it.
extern "C" __global__ void chained(const float *x, float *y, volatile float *ends, volatile int *done)
{
    __shared__ float before;
    int i = blockIdx.x * 256 + threadIdx.x;
    float v = x[i];
    if (threadIdx.x == 0) {
        while (blockIdx.x > 0 && done[blockIdx.x - 1] == 0)
            ;
        before = blockIdx.x > 0 ? ends[blockIdx.x - 1] : 0.0f;
        ends[blockIdx.x] = before + v;
        __threadfence();
        done[blockIdx.x] = 1;
    }
    __syncthreads();
    y[i] = v + before;
}
