// Shared memory: strides (conflicts of 2 to 32 ways), uniform groups, partial warps; scalar, 64- and 128-bit.
template <typename T>
__device__ T make(float x);
template <> __device__ float make<float>(float x) { return x; }
template <> __device__ double make<double>(float x) { return x; }
template <> __device__ float2 make<float2>(float x) { return make_float2(x, x + 1); }
template <> __device__ float4 make<float4>(float x) { return make_float4(x, x + 1, x + 2, x + 3); }
__device__ float sum(float x) { return x; }
__device__ float sum(double x) { return static_cast<float>(x); }
__device__ float sum(float2 x) { return x.x + x.y; }
__device__ float sum(float4 x) { return x.x + x.y + x.z + x.w; }

// Lane l stores and then loads element l * STRIDE (modulo the array).
template <typename T, int STRIDE>
__global__ void strided(const float *in, float *out)
{
    __shared__ T tile[1024];
    const int slot = threadIdx.x * STRIDE % 1024;
    tile[slot] = make<T>(in[threadIdx.x]);
    __syncthreads();
    const int other = (blockDim.x - 1 - threadIdx.x) * STRIDE % 1024;
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum(tile[other]);
}

// GROUP neighbouring lanes read the same element; the groups lie STRIDE elements apart.
template <typename T, int GROUP, int STRIDE>
__global__ void uniform(const float *in, float *out)
{
    __shared__ T tile[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        tile[i] = make<T>(in[i]);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum(tile[threadIdx.x / GROUP * STRIDE % 1024]);
}

// Lane n and lane n ^ DISTANCE read the same element.
template <typename T, int DISTANCE>
__global__ void paired(const float *in, float *out)
{
    __shared__ T tile[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        tile[i] = make<T>(in[i]);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum(tile[(threadIdx.x & ~DISTANCE) * 3 % 256]);
}

// Only the lanes of `mask` take part.
template <typename T, int STRIDE>
__global__ void masked(const float *in, float *out, unsigned mask)
{
    __shared__ T tile[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        tile[i] = make<T>(in[i]);
    __syncthreads();
    float value = 0.0f;
    if (mask >> threadIdx.x % 32 & 1) {
        value = sum(tile[threadIdx.x * STRIDE % 1024]);
        tile[(threadIdx.x * STRIDE + 5) % 1024] = make<T>(value);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// The tile of lane l's row starts at a byte address the compiler cannot see: dynamic shared memory, run-time stride.
extern __shared__ __align__(16) float dynamic_tile[];
__global__ void rows(const float *in, float *out, int row_floats)
{
    for (int i = threadIdx.x; i < 32 * row_floats; i += blockDim.x)
        dynamic_tile[i] = in[i];
    __syncthreads();
    float total = 0.0f;
    for (int k = 0; k < row_floats; ++k)
        total += dynamic_tile[threadIdx.x % 32 * row_floats + k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
