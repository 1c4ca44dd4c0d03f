// Control flow: reductions, divergent branches, early exits, loops with a trip count per thread, shuffles, atomics.

__global__ void reduce(const float *in, float *out, int n)
{
    __shared__ float partial[256];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 256 + t;
    partial[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half)
            partial[t] += partial[t + half];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

__global__ void reduce_interleaved(const float *in, float *out)
{
    __shared__ float partial[256];
    const int t = threadIdx.x;
    partial[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        if (t % (2 * step) == 0)
            partial[t] += partial[t + step];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

__global__ void warp_reduce(const float *in, float *out, int n)
{
    __shared__ float partial[32];
    float x = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        x += in[i];
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_down_sync(0xffffffffu, x, d);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x < 32) {
        x = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
        for (int d = 16; d > 0; d /= 2)
            x += __shfl_down_sync(0xffffffffu, x, d);
        if (threadIdx.x == 0)
            out[0] = x;
    }
}

__global__ void two_arms(const float *in, float *out, int n)
{
    __shared__ float even[128];
    __shared__ float odd[128];
    const int t = threadIdx.x;
    even[t] = in[2 * t];
    odd[t] = in[2 * t + 1];
    __syncthreads();
    float x;
    if (t % 3 == 0) {
        x = even[t] * 2.0f;
        for (int k = 0; k < 4; ++k)
            x += even[(t + k * k) % 128];
    } else {
        x = odd[t] - 1.0f;
    }
    if (t < n)
        out[t] = x;
}

__global__ void early_exit(const float *in, float *out, int n)
{
    __shared__ float tile[128];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    tile[threadIdx.x] = in[i];
    __syncwarp();
    out[i] = tile[threadIdx.x ^ 1] + tile[threadIdx.x & ~3];
}

__global__ void collatz(const int *in, int *out)
{
    __shared__ int steps[64];
    int x = in[threadIdx.x];
    int count = 0;
    while (x != 1) {
        x = x % 2 ? 3 * x + 1 : x / 2;
        ++count;
        steps[threadIdx.x] = count;
    }
    out[threadIdx.x] = steps[threadIdx.x];
}

__global__ void scan(const float *in, float *out)
{
    __shared__ float line[2][128];
    const int t = threadIdx.x;
    int from = 0;
    line[0][t] = in[t];
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        line[1 - from][t] = t >= d ? line[from][t] + line[from][t - d] : line[from][t];
        from = 1 - from;
        __syncthreads();
    }
    out[t] = line[from][t];
}

__global__ void histogram(const int *in, int *out, int n)
{
    __shared__ int bins[32];
    if (threadIdx.x < 32)
        bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i] & 31], 1);
    __syncthreads();
    if (threadIdx.x < 32)
        atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

__global__ void softmax(const float *in, float *out, int cols)
{
    __shared__ float line[256];
    const int t = threadIdx.x;
    const float x = t < cols ? in[blockIdx.x * cols + t] : -1e30f;
    line[t] = x;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half)
            line[t] = fmaxf(line[t], line[t + half]);
        __syncthreads();
    }
    const float top = line[0];
    __syncthreads();
    const float e = __expf(x - top);
    line[t] = e;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half)
            line[t] += line[t + half];
        __syncthreads();
    }
    if (t < cols)
        out[blockIdx.x * cols + t] = __fdividef(e, line[0]);
}

// Rounded division and square root: ptxas expands both into FFMA sequences with a rare slow path.
__global__ void normalise(const float *in, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] / sqrtf(in[i] * in[i] + 1.0f);
}
