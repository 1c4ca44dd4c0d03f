// What memory and atomics take, for the whole chip. Grid-stride loops over ``n`` floats; ``bins`` is a power of two.

extern "C" __global__ void reads(long long n4, const float4 *x, float4 *y)
{
    float4 sum = {};
    for (long long i = blockIdx.x * 1024LL + threadIdx.x; i < n4; i += gridDim.x * 1024LL) {
        float4 v = x[i];
        sum.x += v.x + v.y + v.z + v.w;
    }
    if (sum.x == 12345.678f)
        y[0] = sum;
}

extern "C" __global__ void writes(long long n4, const float4 *x, float4 *y)
{
    for (long long i = blockIdx.x * 1024LL + threadIdx.x; i < n4; i += gridDim.x * 1024LL)
        y[i] = make_float4(i, i, i, i);
}

extern "C" __global__ void copies(long long n4, const float4 *x, float4 *y)
{
    for (long long i = blockIdx.x * 1024LL + threadIdx.x; i < n4; i += gridDim.x * 1024LL)
        y[i] = x[i];
}

extern "C" __global__ void in_place(long long n4, const float4 *x, float4 *y)
{
    for (long long i = blockIdx.x * 1024LL + threadIdx.x; i < n4; i += gridDim.x * 1024LL) {
        float4 v = y[i];
        v.x += 1;
        y[i] = v;
    }
}

// It reads three places for each that it writes.
extern "C" __global__ void quarters(long long n4, const float4 *x, float4 *y)
{
    for (long long i = blockIdx.x * 1024LL + threadIdx.x; i < n4; i += gridDim.x * 1024LL) {
        float4 v = x[i];
        v.x += x[i + n4].x + x[i + 2 * n4].x;
        y[i] = v;
    }
}

// 64 dependent loads of one thread in each of 132 * ``blockDim.x / 32`` warps, all at random places of n floats.
extern "C" __global__ void chases(long long n, const unsigned *x, unsigned *y)
{
    unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u % n;
    for (int i = 0; i < 64; ++i)
        at = x[at];
    if (at == 0xffffffffu)
        y[0] = at;
}

// Each thread adds 16 times. ``way`` 0: lane 0 of each warp to one place; 1: all lanes to consecutive places of its own
// warp; 2: to pseudo-random places among ``bins``; 3: each block to one place of its own by lane 0.
extern "C" __global__ void adds(int way, unsigned bins, int *sums)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, seed = thread * 2654435761u;
    for (int i = 0; i < 16; ++i) {
        seed = seed * 1664525u + 1013904223u;
        if (way == 0 || way == 3) {
            if (threadIdx.x % 32 == 0)
                atomicAdd(&sums[way == 3 ? blockIdx.x * 64 : 0], (int)seed);
        } else
            atomicAdd(&sums[way == 1 ? (thread + i * 32) & (bins - 1) : (seed >> 8) & (bins - 1)], 1 + (int)(seed & 1));
    }
}

extern "C" __global__ void float_adds(int way, unsigned bins, float *sums)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, seed = thread * 2654435761u;
    for (int i = 0; i < 16; ++i) {
        seed = seed * 1664525u + 1013904223u;
        if (way == 0 || way == 3) {
            if (threadIdx.x % 32 == 0)
                atomicAdd(&sums[way == 3 ? blockIdx.x * 64 : 0], (float)seed);
        } else
            atomicAdd(&sums[way == 1 ? (thread + i * 32) & (bins - 1) : (seed >> 8) & (bins - 1)], 1.0f);
    }
}

// The same in shared memory, 256 times. ``way`` 1: a place of its own for each lane; 2: pseudo-random among ``bins``.
extern "C" __global__ void shared_adds(int way, unsigned bins, int *out)
{
    __shared__ int sums[4096];
    unsigned seed = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x)
        sums[i] = 0;
    __syncthreads();
    for (int i = 0; i < 256; ++i) {
        seed = seed * 1664525u + 1013904223u;
        atomicAdd(&sums[way == 1 ? (threadIdx.x + i) & (bins - 1) : (seed >> 8) & (bins - 1)], 1 + (int)(seed & 1));
    }
    __syncthreads();
    out[threadIdx.x] = sums[threadIdx.x];
}

extern "C" __global__ void shuffles(int way, unsigned bins, int *out)
{
    int v = threadIdx.x;
    for (int i = 0; i < 256; ++i)
        v = __shfl_xor_sync(0xffffffffu, v, 1 + (i & 7)) + i;
    if (v == 12345678)
        out[0] = v;
}

extern "C" __global__ void exponentials(int way, unsigned bins, int *out)
{
    float v = threadIdx.x * 1e-3f, w = v + 1.0f;
    for (int i = 0; i < 256; ++i) {
        asm volatile("ex2.approx.f32 %0, %0;" : "+f"(v));
        asm volatile("ex2.approx.f32 %0, %0;" : "+f"(w));
    }
    if (v + w == 12345.678f)
        out[0] = 1;
}

extern "C" __global__ void empty(int way, unsigned bins, int *out) {}

// One element a thread, one load and one store.
extern "C" __global__ void copy_once(const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] + 1.0f;
}

// Each warp reads a line of 128 bytes after the other, ``rounds`` times: those of its block, ``stride`` lines apart.
extern "C" __global__ void lines(int rounds, int count, int stride, const float *x, float *y)
{
    float sum = 0.0f;
    for (int round = 0; round < rounds; ++round)
        for (int i = threadIdx.x / 32; i < count; i += blockDim.x / 32)
            sum += x[(long long)i * stride * 32 + threadIdx.x % 32];
    if (sum == 12345.678f)
        y[0] = sum;
}

// Each warp loads 64 lines of 128 bytes, each after the one before has come, at places all over ``mask`` + 1 lines.
extern "C" __global__ void dependent_lines(unsigned mask, const unsigned *x, unsigned *y)
{
    unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 2654435761u, lane = threadIdx.x % 32;
    for (int i = 0; i < 64; ++i)
        at = at * 1664525u + 1013904223u + x[((at >> 7) & mask) * 32ull + lane];
    if (at == 12345678u)
        y[0] = at;
}

// Each thread has a row of c floats: it loads them all, one after the other.
extern "C" __global__ void row_loads(int c, const float *x, float *y)
{
    const float *row = x + (long long)(blockIdx.x * blockDim.x + threadIdx.x) * c;
    float most = 0;
    for (int j = 0; j < c; ++j)
        most = fmaxf(most, row[j]);
    if (most == 12345.0f)
        y[0] = most;
}

// It stores them all: 4 bytes of a sector at a time.
extern "C" __global__ void row_stores(int c, const float *x, float *y)
{
    float *row = y + (long long)(blockIdx.x * blockDim.x + threadIdx.x) * c;
    for (int j = 0; j < c; ++j)
        row[j] = j;
}

// It adds to each; loads need not wait for stores.
extern "C" __global__ void row_adds(int c, const float *x, float *y)
{
    float *row = y + (long long)(blockIdx.x * blockDim.x + threadIdx.x) * c;
    for (int j = 0; j < c; ++j)
        row[j] += 1.0f;
}

// It adds to the first 64 of them, 8 times. x may be the same memory, so each load follows the store before it.
extern "C" __global__ void row_sums(int c, const float *x, float *y)
{
    float *row = y + (long long)(blockIdx.x * blockDim.x + threadIdx.x) * c;
    for (int n = 0; n < 8; ++n)
        for (int j = 0; j < 64; ++j)
            row[j] += x[n * 64 + j];
}
