// What else compilers make of C++: divisions by run-time numbers, 64-bit indices, local arrays, calls, switches, views,
// votes and shuffles, named barriers, three-dimensional launches.
#include "matrix.cuh"

// Row and column by division: ptxas expands an integer division through a reciprocal.
__global__ void divided(const float *in, float *out, int n, int cols)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const int row = i / cols;
        const int col = i % cols;
        out[col * (n / cols) + row] = in[i];
    }
}

__global__ void divided_unsigned(const float *in, float *out, unsigned n, unsigned cols)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i % cols * 3 + i / cols] = in[i];
}

// 64-bit grid-stride loop.
__global__ void grid_stride(const double *in, double *out, int count)
{
    const long long n = count;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        out[n - 1 - i] = 2.0 * in[i];
}

// An array per thread whose index is known at run time only: local memory.
__global__ void local_array(const int *in, int *out)
{
    int mine[8];
    for (int k = 0; k < 8; ++k)
        mine[k] = in[threadIdx.x * 8 + k];
    int at = in[threadIdx.x] & 7;
    for (int k = 0; k < 3; ++k)
        at = mine[at] & 7;
    out[threadIdx.x] = in[at * 32 + threadIdx.x % 32];
}

__device__ __noinline__ float heavy(const float *in, int i)
{
    float x = 0.0f;
    for (int k = 0; k < 3; ++k)
        x += in[i * 3 + k];
    return x;
}

__global__ void calls(const float *in, float *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = heavy(in, i);
    if (i % 3 == 1)
        x += heavy(in, i + 1);
    out[i] = x;
}

__global__ void switches(const float *in, float *out, int shift)
{
    __shared__ float line[64];
    line[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    float x = 0.0f;
    switch ((threadIdx.x >> shift) % 8) {
    case 0: x = line[threadIdx.x]; break;
    case 1: x = in[threadIdx.x + 64]; break;
    case 2: x = line[63 - threadIdx.x] * 3.0f; break;
    case 3: x = line[threadIdx.x / 2] + in[2 * threadIdx.x]; break;
    case 4: out[threadIdx.x + 64] = line[1]; break;
    case 5: x = in[0]; break;
    case 6: x = 7.0f; break;
    default: x = line[threadIdx.x ^ 5]; break;
    }
    out[threadIdx.x] = x;
}

__global__ void matrix_view(Matrix<const float> A, Matrix<float> B)
{
    __shared__ float tile[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row < A.rows && col < A.cols)
        tile[threadIdx.y][threadIdx.x] = A(row, col);
    __syncthreads();
    const int out_row = blockIdx.x * 16 + threadIdx.y;
    const int out_col = blockIdx.y * 16 + threadIdx.x;
    if (out_row < B.rows && out_col < B.cols)
        B(out_row, out_col) = tile[threadIdx.x][threadIdx.y];
}

__global__ void votes(const float *in, float *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = in[i];
    const unsigned lanes = __ballot_sync(0xffffffffu, x > 0.0f);
    const int rank = __popc(lanes & ((1u << threadIdx.x % 32) - 1));
    if (x > 0.0f)
        out[blockIdx.x * blockDim.x + threadIdx.x / 32 * 32 + rank] = x;
    if (__any_sync(0xffffffffu, x > 7.0f))
        out[i + 256] = __shfl_xor_sync(0xffffffffu, x, 5);
}

__global__ void shuffled_index(const int *in, float *out, const float *table)
{
    int x = in[threadIdx.x] & 63;
    for (int d = 1; d < 32; d *= 2)
        x = max(x, __shfl_up_sync(0xffffffffu, x, d));
    out[threadIdx.x] = table[x + threadIdx.x % 4];
}

__global__ void three_dimensions(const float *in, float *out, int nx, int ny, int nz)
{
    __shared__ float cube[3][4][8];
    const int x = blockIdx.x * 8 + threadIdx.x;
    const int y = blockIdx.y * 4 + threadIdx.y;
    const int z = blockIdx.z * 3 + threadIdx.z;
    const bool inside = x < nx && y < ny && z < nz;
    cube[threadIdx.z][threadIdx.y][threadIdx.x] = inside ? in[(z * ny + y) * nx + x] : 0.0f;
    __syncthreads();
    if (inside)
        out[(x * ny + y) * nz + z] = cube[threadIdx.z][threadIdx.y][7 - threadIdx.x];
}

// Nested divergence with break and continue.
__global__ void nested(const int *in, int *out, int n)
{
    __shared__ int seen[96];
    int total = 0;
    seen[threadIdx.x] = 0;
    for (int k = 0; k < n; ++k) {
        const int x = in[threadIdx.x * n + k];
        if (x % 7 == 0)
            break;
        if (x % 3 == 0) {
            seen[threadIdx.x] += x;
            continue;
        }
        for (int j = 0; j < x % 5; ++j)
            if (j % 2)
                total += seen[(threadIdx.x + j) % 96];
            else
                total += in[j];
    }
    out[threadIdx.x] = total;
}

// Two halves of the block meet at barriers of their own.
__global__ void named_barriers(const float *in, float *out)
{
    __shared__ float line[128];
    line[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[threadIdx.x] = line[63 - threadIdx.x];
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        out[threadIdx.x] = line[threadIdx.x ^ 32] + line[threadIdx.x ^ 1];
    }
}

__global__ void shared_atomics(const int *in, int *out, float *sums, int n)
{
    __shared__ int bins[64];
    __shared__ float total;
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        bins[i] = 0;
    if (threadIdx.x == 0)
        total = 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const int old = atomicAdd(&bins[in[i] & 63], 2);
        atomicMax(&bins[(in[i] + 1) & 63], old);
        atomicAdd(&total, static_cast<float>(in[i]));
    }
    __syncthreads();
    out[threadIdx.x] = bins[threadIdx.x & 63];
    if (threadIdx.x < 3)
        atomicAdd(&sums[threadIdx.x], total);
}

// Runs out of registers on purpose: spilled values go through local memory.
__global__ void __launch_bounds__(1024, 2) spilling(const float *in, float *out, int n)
{
    float x[40];
    for (int k = 0; k < 40; ++k)
        x[k] = in[(threadIdx.x + k * n) % 1024];
    for (int k = 0; k < n; ++k)
        for (int j = 0; j < 40; ++j)
            x[j] = x[j] * x[(j * 7 + 3) % 40] + in[(k + j) % 1024];
    float total = 0.0f;
    for (int k = 0; k < 40; ++k)
        total += x[k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
