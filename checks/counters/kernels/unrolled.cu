// Loops over shared memory that ptxas may unroll on its own and whose neighbouring loads it may join.

// LENGTH products of row threadIdx.y with a vector; rows OF floats apart.
template <int LENGTH, int OF>
__global__ void dot_rows(const float *in, float *out)
{
    __shared__ float rows[32][OF];
    __shared__ float vector[OF];
    for (int i = threadIdx.x; i < 32 * OF; i += 32)
        rows[i / OF][i % OF] = in[i];
    for (int i = threadIdx.x; i < OF; i += 32)
        vector[i] = in[i];
    __syncthreads();
    float total = 0.0f;
    for (int k = 0; k < LENGTH; ++k)
        total += rows[threadIdx.x][k] * vector[k];
    out[threadIdx.x] = total;
}

// A window of five around each element: overlapping neighbours, alignment unknown.
__global__ void stencil(const float *in, float *out, int n)
{
    __shared__ float line[128 + 4];
    const int i = blockIdx.x * 128 + threadIdx.x;
    line[threadIdx.x + 2] = i < n ? in[i] : 0.0f;
    if (threadIdx.x < 2) {
        line[threadIdx.x] = i >= 2 ? in[i - 2] : 0.0f;
        line[threadIdx.x + 130] = i + 128 < n ? in[i + 128] : 0.0f;
    }
    __syncthreads();
    float total = 0.0f;
    for (int d = 0; d < 5; ++d)
        total += static_cast<float>(d + 1) * line[threadIdx.x + d];
    if (i < n)
        out[i] = total;
}

// Every thread reads a run-time number of words from a run-time start.
__global__ void segments(const float *in, const int *start, const int *length, float *out)
{
    __shared__ float data[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        data[i] = in[i];
    __syncthreads();
    float total = 0.0f;
    const int first = start[threadIdx.x];
    const int count = length[threadIdx.x];
    for (int k = 0; k < count; ++k)
        total += data[first + k];
    out[threadIdx.x] = total;
}

// Four values of a struct: an aligned one, one the compiler must take to be aligned to 4 only.
struct __align__(16) Aligned { float x, y, z, w; };
struct Loose { float x, y, z, w; };

template <typename T>
__global__ void structs(const float *in, float *out)
{
    __shared__ T items[64];
    if (threadIdx.x < 64) {
        items[threadIdx.x].x = in[4 * threadIdx.x];
        items[threadIdx.x].y = in[4 * threadIdx.x + 1];
        items[threadIdx.x].z = in[4 * threadIdx.x + 2];
        items[threadIdx.x].w = in[4 * threadIdx.x + 3];
    }
    __syncthreads();
    const T item = items[63 - threadIdx.x % 64];
    out[threadIdx.x] = item.x * item.y + item.z * item.w;
}

// Only some of four neighbours are used; others are dead.
__global__ void partly_dead(const float *in, float *out, int which)
{
    __shared__ float tile[32][8];
    for (int i = threadIdx.x; i < 256; i += 32)
        tile[i / 8][i % 8] = in[i];
    __syncthreads();
    const float a = tile[threadIdx.x][0];
    const float b = tile[threadIdx.x][1];
    const float c = tile[threadIdx.x][3];
    const float d = tile[threadIdx.x][6];
    const float e = tile[threadIdx.x][7];
    float result = a * b + c;
    if (which > 0)
        result += d * e;
    out[threadIdx.x] = result;
}

// Volatile: nothing may be joined or dropped.
__global__ void volatile_rows(const float *in, float *out)
{
    __shared__ volatile float tile[32][8];
    for (int i = threadIdx.x; i < 256; i += 32)
        tile[i / 8][i % 8] = in[i];
    __syncthreads();
    float total = 0.0f;
    for (int k = 0; k < 8; ++k)
        total += tile[threadIdx.x][k];
    out[threadIdx.x] = total;
}

// Eight stores to neighbouring words, then one load.
__global__ void neighbour_stores(const float *in, float *out)
{
    __shared__ float tile[32][8];
    const float x = in[threadIdx.x];
    for (int k = 0; k < 8; ++k)
        tile[threadIdx.x][k] = x * static_cast<float>(k);
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x / 8][threadIdx.x % 8];
}

// Neighbouring scalar accesses of global memory.
__global__ void neighbour_globals(const float *in, float *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = in[4 * i];
    const float b = in[4 * i + 1];
    const float c = in[4 * i + 2];
    const float d = in[4 * i + 3];
    out[4 * i] = a + b;
    out[4 * i + 1] = b + c;
    out[4 * i + 2] = c + d;
    out[4 * i + 3] = d + a;
}

// Three-by-three convolution of a 16x16 patch with a halo.
__global__ void convolution(const float *in, const float *weights, float *out, int rows, int cols)
{
    __shared__ float patch[18][18];
    __shared__ float w[9];
    const int t = threadIdx.y * 16 + threadIdx.x;
    if (t < 9)
        w[t] = weights[t];
    for (int i = t; i < 18 * 18; i += 256) {
        const int row = blockIdx.y * 16 + i / 18 - 1;
        const int col = blockIdx.x * 16 + i % 18 - 1;
        patch[i / 18][i % 18] = row >= 0 && row < rows && col >= 0 && col < cols ? in[row * cols + col] : 0.0f;
    }
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            total += patch[threadIdx.y + i][threadIdx.x + j] * w[i * 3 + j];
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row < rows && col < cols)
        out[row * cols + col] = total;
}
