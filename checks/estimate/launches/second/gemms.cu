// C = A B in more ways that no lesson has.
#include <cuda_fp16.h>

// Blocks in one dimension: a block has 32 rows; a thread has a column at a time and walks over them.
extern "C" __global__ void outer(int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[8][32];
    int tid = threadIdx.x, row = blockIdx.x / (n / 256) * 32, col = blockIdx.x % (n / 256) * 256 + tid;
    float sum[32] = {};
    for (int first = 0; first < k; first += 8) {
        __syncthreads();
        as[tid % 8][tid / 8] = a[(row + tid / 8) * k + first + tid % 8];
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 8; ++d) {
            float right = b[(first + d) * n + col];
#pragma unroll
            for (int r = 0; r < 32; ++r)
                sum[r] += as[d][r] * right;
        }
    }
#pragma unroll
    for (int r = 0; r < 32; ++r)
        c[(row + r) * n + col] = sum[r];
}

// Column-major, 16 x 16 threads, tiles of 16.
extern "C" __global__ void column_major(int m, int n, int k, float alpha, const float *a, const float *b, float beta, float *c)
{
    __shared__ float as[16][16], bs[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.x * 16 + tx, col = blockIdx.y * 16 + ty;
    float sum = 0.0f;
    for (int first = 0; first < k; first += 16) {
        as[ty][tx] = a[(first + ty) * m + row];
        bs[ty][tx] = b[col * k + first + tx];
        __syncthreads();
        for (int d = 0; d < 16; ++d)
            sum += as[d][tx] * bs[ty][d];
        __syncthreads();
    }
    c[col * m + row] = alpha * sum + beta * c[col * m + row];
}

// Blocks share K: each warp has 32 x 32 of C and its own part of K, and adds by atomics.
extern "C" __global__ void warps_split_k(int n, int k, const float *a, const float *b, float *c)
{
    int lane = threadIdx.x, row = blockIdx.y * 32 + lane / 4 * 4, col = blockIdx.x * 32 + lane % 4 * 8;
    int share = k / (gridDim.z * blockDim.y), first = (blockIdx.z * blockDim.y + threadIdx.y) * share;
    float sum[4][8] = {};
    for (int d = first; d < first + share; ++d) {
        float4 low = *(const float4 *)&b[d * n + col], high = *(const float4 *)&b[d * n + col + 4];
        float right[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float left = a[(row + i) * k + d];
            for (int j = 0; j < 8; ++j)
                sum[i][j] += left * right[j];
        }
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 8; ++j)
            atomicAdd(&c[(row + i) * n + col + j], sum[i][j]);
}

// Registers only: a thread has 8 x 4, A is stored transposed, the next factors are fetched ahead.
extern "C" __global__ void registers(int m, int n, int k, const float4 *a, const float4 *b, float4 *c)
{
    int row = blockIdx.y * 64 + threadIdx.y * 8, col = blockIdx.x * 16 + threadIdx.x, m4 = m / 4, n4 = n / 4;
    float4 sum[8] = {}, low = a[row / 4], high = a[row / 4 + 1], right = b[col];
    for (int d = 1; d <= k; ++d) {
        float left[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        float4 now = right;
        if (d < k)
            low = a[d * m4 + row / 4], high = a[d * m4 + row / 4 + 1], right = b[d * n4 + col];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            sum[i].x += left[i] * now.x, sum[i].y += left[i] * now.y;
            sum[i].z += left[i] * now.z, sum[i].w += left[i] * now.w;
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        c[(row + i) * n4 + col] = sum[i];
}

// Halves by pairs without tensor cores: 64 x 64 by 256 threads, sums in halves.
extern "C" __global__ void halves(int n, int k, const __half *a, const __half *b, __half *c)
{
    __shared__ __half as[16][66];
    __shared__ __half2 bs[16][32];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16, row = blockIdx.y * 64, col = blockIdx.x * 64;
    __half2 sum[4][2] = {};
    for (int first = 0; first < k; first += 16) {
        for (int i = tid; i < 1024; i += 256)
            as[i % 16][i / 16] = a[(row + i / 16) * k + first + i % 16];
        for (int i = tid; i < 512; i += 256)
            bs[i / 32][i % 32] = *(const __half2 *)&b[(first + i / 32) * n + col + i % 32 * 2];
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 16; ++d)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 2; ++j)
                    sum[i][j] = __hfma2(__half2half2(as[d][ty * 4 + i]), bs[d][tx + 16 * j], sum[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j)
            *(__half2 *)&c[(row + ty * 4 + i) * n + col + (tx + 16 * j) * 2] = sum[i][j];
}

// Many products of 16 x 16, one a warp; a lane has half a row, B comes by shuffles.
extern "C" __global__ void batched16(const float *a, const float *b, float *c)
{
    int lane = threadIdx.x % 32, base = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 256;
    float left[8], right[8], sum[8] = {};
    for (int i = 0; i < 8; ++i)
        left[i] = a[base + lane * 8 + i], right[i] = b[base + lane * 8 + i];
#pragma unroll
    for (int d = 0; d < 16; ++d) {
        float x = __shfl_sync(~0u, left[d % 8], lane / 2 * 2 + d / 8);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            sum[i] += x * __shfl_sync(~0u, right[i], d * 2 + lane % 2);
    }
    for (int i = 0; i < 8; ++i)
        c[base + lane * 8 + i] = sum[i];
}

// A is tall, 64 wide; B is 64 x 16 in shared memory; a thread has a row.
extern "C" __global__ void tall(const float4 *a, const float *b, float4 *c)
{
    __shared__ float bs[64][16];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        bs[i / 16][i % 16] = b[i];
    __syncthreads();
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum[16] = {};
    for (int d = 0; d < 16; ++d) {
        float4 v = a[row * 16 + d];
#pragma unroll
        for (int j = 0; j < 16; ++j)
            sum[j] += v.x * bs[d * 4][j] + v.y * bs[d * 4 + 1][j] + v.z * bs[d * 4 + 2][j] + v.w * bs[d * 4 + 3][j];
    }
    for (int j = 0; j < 4; ++j)
        c[row * 4 + j] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
}

// Any sizes: a block of 16 x 16 threads has 48 x 48, each access with its own test.
extern "C" __global__ void ragged(int m, int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[48][17], bs[16][48];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 48, col = blockIdx.x * 48;
    float sum[3][3] = {};
    for (int first = 0; first < k; first += 16) {
        for (int i = 0; i < 48; i += 16) {
            as[ty + i][tx] = row + ty + i < m && first + tx < k ? a[(row + ty + i) * k + first + tx] : 0.0f;
            bs[ty][tx + i] = first + ty < k && col + tx + i < n ? b[(first + ty) * n + col + tx + i] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 16; ++d)
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j)
                    sum[i][j] += as[ty + 16 * i][d] * bs[d][tx + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            if (row + ty + 16 * i < m && col + tx + 16 * j < n)
                c[(row + ty + 16 * i) * n + col + tx + 16 * j] = sum[i][j];
}
