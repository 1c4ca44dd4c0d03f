// Copies, conversions and transposes.
#include <cuda_fp16.h>

extern "C" __global__ void fma_half(int n, __half a, const __half *x, __half *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = __hfma(a, x[i], y[i]);
}

// The same, eight elements a thread.
extern "C" __global__ void fma_half8(int n8, __half a, const uint4 *x, uint4 *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n8)
        return;
    uint4 left = x[i], right = y[i];
    __half2 *l = (__half2 *)&left, *r = (__half2 *)&right;
#pragma unroll
    for (int j = 0; j < 4; ++j)
        r[j] = __hfma2(__half2half2(a), l[j], r[j]);
    y[i] = right;
}

// A part of a matrix, from rows that begin anywhere.
extern "C" __global__ void copy_part(int rows, int cols, int pitch, const float *in, float *out)
{
    for (int row = blockIdx.y; row < rows; row += gridDim.y)
        for (int col = blockIdx.x * blockDim.x + threadIdx.x; col < cols; col += gridDim.x * blockDim.x)
            out[row * cols + col] = in[row * pitch + col + 3];
}

extern "C" __global__ void transpose_bytes(int n, const unsigned char *in, unsigned char *out)
{
    int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    out[col * n + row] = in[row * n + col];
}

// The same: a warp moves 4 x 4 bytes a lane through shared memory.
extern "C" __global__ void transpose_bytes4(int n, const unsigned *in, unsigned *out)
{
    __shared__ unsigned tile[4][32][33];
    int lane = threadIdx.x, words = n / 4;
    for (int quad = threadIdx.y; quad < 32; quad += 8) {
        unsigned word[4];
        for (int r = 0; r < 4; ++r)
            word[r] = in[(blockIdx.y * 128 + quad * 4 + r) * words + blockIdx.x * 32 + lane];
        for (int b = 0; b < 4; ++b) {
            unsigned low = __byte_perm(word[0], word[1], b | (b + 4) << 4);
            unsigned high = __byte_perm(word[2], word[3], b | (b + 4) << 4);
            tile[b][quad][lane] = __byte_perm(low, high, 0x5410);
        }
    }
    __syncthreads();
    for (int row = threadIdx.y; row < 128; row += 8)
        out[(blockIdx.x * 128 + row) * words + blockIdx.y * 32 + lane] = tile[row % 4][lane][row / 4];
}

// A row of halves to bytes and the scale of the row.
extern "C" __global__ void quantise(int cols, const __half2 *in, char2 *out, float *scales)
{
    __shared__ float most[32];
    const __half2 *x = in + (long long)blockIdx.x * cols / 2;
    float largest = 0.0f;
    for (int i = threadIdx.x; i < cols / 2; i += blockDim.x) {
        float2 v = __half22float2(x[i]);
        largest = fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y)));
    }
    for (int offset = 16; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    if (threadIdx.x % 32 == 0)
        most[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w)
        largest = fmaxf(largest, most[w]);
    float scale = 127.0f / fmaxf(largest, 1e-6f);
    for (int i = threadIdx.x; i < cols / 2; i += blockDim.x) {
        float2 v = __half22float2(x[i]);
        out[(long long)blockIdx.x * cols / 2 + i] = make_char2(__float2int_rn(v.x * scale), __float2int_rn(v.y * scale));
    }
    if (threadIdx.x == 0)
        scales[blockIdx.x] = 1.0f / scale;
}

// Eight 4-bit integers of a word to halves; 64 elements have a scale.
extern "C" __global__ void dequantise4(int words, const unsigned *in, const __half *scales, uint4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= words)
        return;
    unsigned word = in[i];
    __half scale = scales[i / 8], values[8];
#pragma unroll
    for (int j = 0; j < 8; ++j)
        values[j] = __hmul(__int2half_rn((int)(word >> 4 * j & 15) - 8), scale);
    out[i] = *(uint4 *)values;
}
