// Global memory: coalesced, strided, misaligned, broadcast, reversed, scattered, narrow and wide elements, partial warps.
template <typename T, int STRIDE, int OFFSET>
__global__ void copy(const T *in, T *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i * STRIDE + OFFSET] = in[i * STRIDE + OFFSET];
}

// Every lane of a group of GROUP lanes reads the same element.
template <int GROUP>
__global__ void broadcast(const float *in, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i / GROUP];
}

// Element i of a hashed order: no two neighbours in one sector.
__global__ void scatter(const float *in, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int from = (i * 40503u) % static_cast<unsigned>(n);
    const int to = n - 1 - i;
    if (i < n)
        out[to] = in[from];
}

// Some lanes of every warp, by a mask of bits; a second access under the opposite mask.
__global__ void masked(const float *in, float *out, unsigned mask)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x % 32;
    if (mask >> lane & 1)
        out[i] = in[2 * i];
    else
        out[i] = in[i] + 1.0f;
}

// Whole warps beyond n: the guard switches every lane off.
__global__ void ragged_rows(const float *in, float *out, int rows, int cols)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    float value = 0.0f;
    if (row < rows && col < cols)
        value = in[row * cols + col];
    if (row < rows)
        out[row * gridDim.x * blockDim.x + col] = value;
}
