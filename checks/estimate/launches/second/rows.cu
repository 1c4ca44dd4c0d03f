// Rows of matrices: softmax, norms, attention, sparse products, tables.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float over_block(float value, bool largest)
{
    __shared__ float part[32];
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(~0u, value, offset);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    __syncthreads();
    value = part[0];
    for (int w = 1; w < blockDim.x / 32; ++w)
        value = largest ? fmaxf(value, part[w]) : value + part[w];
    return value;
}

// A row of halves, kept as floats in shared memory.
extern "C" __global__ void softmax_half(int cols, const __half *x, __half *y)
{
    extern __shared__ float row[];
    const __half *own = x + (long long)blockIdx.x * cols;
    float most = -1e30f, sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        most = fmaxf(most, row[i] = __half2float(own[i]));
    most = over_block(most, true);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        sum += row[i] = __expf(row[i] - most);
    float scale = 1.0f / over_block(sum, false);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        y[(long long)blockIdx.x * cols + i] = __float2half(row[i] * scale);
}

// A row of 4096 numbers in the registers of 256 threads.
extern "C" __global__ void rms_norm(const uint4 *x, const uint4 *weights, uint4 *y)
{
    uint4 mine[2];
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        mine[j] = x[blockIdx.x * 512 + j * 256 + threadIdx.x];
        for (int i = 0; i < 4; ++i) {
            float2 v = __bfloat1622float2(((__nv_bfloat162 *)&mine[j])[i]);
            sum += v.x * v.x + v.y * v.y;
        }
    }
    __nv_bfloat162 scale = __float2bfloat162_rn(rsqrtf(over_block(sum, false) / 4096.0f + 1e-5f));
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        uint4 weight = weights[j * 256 + threadIdx.x];
        for (int i = 0; i < 4; ++i) {
            __nv_bfloat162 *v = (__nv_bfloat162 *)&mine[j] + i;
            *v = __hmul2(__hmul2(*v, scale), ((__nv_bfloat162 *)&weight)[i]);
        }
        y[blockIdx.x * 512 + j * 256 + threadIdx.x] = mine[j];
    }
}

// One query per head, d = 128: warps share out the keys, lanes the elements.
extern "C" __global__ void decode(int t, const __half *q, const uint2 *k, const uint2 *v, float *out)
{
    __shared__ float sums[8][128], weights[8];
    int lane = threadIdx.x, warp = threadIdx.y, head = blockIdx.x;
    float query[4], sum[4] = {}, weight = 0.0f;
    for (int i = 0; i < 4; ++i)
        query[i] = __half2float(q[head * 128 + lane * 4 + i]) * 0.088f;
    for (int key = warp; key < t; key += 8) {
        long long at = ((long long)head * t + key) * 32 + lane;
        uint2 left = k[at], right = v[at];
        float score = 0.0f;
        for (int i = 0; i < 4; ++i)
            score += query[i] * __half2float(((__half *)&left)[i]);
        for (int offset = 16; offset > 0; offset /= 2)
            score += __shfl_xor_sync(~0u, score, offset);
        float part = __expf(score);
        weight += part;
        for (int i = 0; i < 4; ++i)
            sum[i] += part * __half2float(((__half *)&right)[i]);
    }
    for (int i = 0; i < 4; ++i)
        sums[warp][lane * 4 + i] = sum[i];
    weights[warp] = weight;
    __syncthreads();
    int tid = warp * 32 + lane;
    if (tid < 128) {
        float total = 0.0f, all = 0.0f;
        for (int w = 0; w < 8; ++w)
            total += sums[w][tid], all += weights[w];
        out[head * 128 + tid] = total / all;
    }
}

// q, k, v and out are [head][t][32]; a thread has one query.
extern "C" __global__ void attend(int t, const float4 *q, const float4 *k, const float4 *v, float4 *out)
{
    int base = blockIdx.y * t * 8, row = blockIdx.x * blockDim.x + threadIdx.x;
    float4 query[8], sum[8] = {};
    float most = -1e30f, weight = 0.0f;
#pragma unroll
    for (int d = 0; d < 8; ++d)
        query[d] = q[base + row * 8 + d];
    for (int key = 0; key < t; ++key) {
        float score = 0.0f;
#pragma unroll
        for (int d = 0; d < 8; ++d) {
            float4 x = k[base + key * 8 + d];
            score += query[d].x * x.x + query[d].y * x.y + query[d].z * x.z + query[d].w * x.w;
        }
        float now = fmaxf(most, score * 0.1767f), scale = __expf(most - now), part = __expf(score * 0.1767f - now);
        most = now, weight = weight * scale + part;
#pragma unroll
        for (int d = 0; d < 8; ++d) {
            float4 x = v[base + key * 8 + d];
            sum[d].x = sum[d].x * scale + part * x.x, sum[d].y = sum[d].y * scale + part * x.y;
            sum[d].z = sum[d].z * scale + part * x.z, sum[d].w = sum[d].w * scale + part * x.w;
        }
    }
#pragma unroll
    for (int d = 0; d < 8; ++d)
        out[base + row * 8 + d] = make_float4(sum[d].x / weight, sum[d].y / weight, sum[d].z / weight, sum[d].w / weight);
}

// The same: 32 queries a block and 32 keys at a time; a warp computes the scores of four rows, then adds the values.
extern "C" __global__ void attend_tiled(int t, const float *q, const float *k, const float *v, float *out)
{
    __shared__ float query[32][33], key[32][33], value[32][32], score[32][33];
    int lane = threadIdx.x, warp = threadIdx.y, base = blockIdx.y * t * 32;
    float sum[4] = {}, most[4], weight[4] = {};
    for (int r = 0; r < 4; ++r) {
        query[warp + 8 * r][lane] = 0.1767f * q[base + (blockIdx.x * 32 + warp + 8 * r) * 32 + lane];
        most[r] = -1e30f;
    }
    for (int first = 0; first < t; first += 32) {
        __syncthreads();
        for (int r = warp; r < 32; r += 8)
            key[r][lane] = k[base + (first + r) * 32 + lane], value[r][lane] = v[base + (first + r) * 32 + lane];
        __syncthreads();
        for (int r = 0; r < 4; ++r) {
            float x = 0.0f;
#pragma unroll
            for (int d = 0; d < 32; ++d)
                x += query[warp + 8 * r][d] * key[lane][d];
            float now = x;
            for (int offset = 16; offset > 0; offset /= 2)
                now = fmaxf(now, __shfl_xor_sync(~0u, now, offset));
            now = fmaxf(now, most[r]);
            float part = __expf(x - now), scale = __expf(most[r] - now);
            score[warp + 8 * r][lane] = part;
            for (int offset = 16; offset > 0; offset /= 2)
                part += __shfl_xor_sync(~0u, part, offset);
            weight[r] = weight[r] * scale + part, sum[r] *= scale, most[r] = now;
        }
        __syncwarp();
        for (int r = 0; r < 4; ++r)
#pragma unroll
            for (int j = 0; j < 32; ++j)
                sum[r] += score[warp + 8 * r][j] * value[j][lane];
    }
    for (int r = 0; r < 4; ++r)
        out[base + (blockIdx.x * 32 + warp + 8 * r) * 32 + lane] = sum[r] / weight[r];
}

// Columns are hashed numbers of elements; a row has room for 32 elements, and 4 to 32 are there.
__device__ int column(unsigned element, int cols)
{
    return (element * 2654435761u >> 8) % cols;
}

extern "C" __global__ void sparse_rows(int rows, int cols, const int *starts, const int *lengths, const unsigned *columns,
                                       const float *values, const float *x, float *y)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    int first = starts[row] * 32, last = first + 4 + 4 * lengths[row];
    for (int i = first; i < last; ++i)
        sum += values[i] * x[column(columns[i], cols)];
    y[row] = sum;
}

// The same by a warp.
extern "C" __global__ void sparse_warps(int rows, int cols, const int *starts, const int *lengths, const unsigned *columns,
                                        const float *values, const float *x, float *y)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = 0.0f;
    int first = starts[row] * 32, last = first + 4 + 4 * lengths[row];
    for (int i = first + lane; i < last; i += 32)
        sum += values[i] * x[column(columns[i], cols)];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(~0u, sum, offset);
    if (lane == 0)
        y[row] = sum;
}

// Rows of a table of halves, 1024 wide.
extern "C" __global__ void gather(int words, const unsigned *ids, const uint4 *table, uint4 *out)
{
    unsigned row = (ids[blockIdx.x] * 2654435761u >> 8) % words;
    out[blockIdx.x * 128 + threadIdx.x] = table[row * 128 + threadIdx.x];
}

// Rows of floats, 512 wide, are added to a table's.
extern "C" __global__ void scatter_add(int words, const unsigned *ids, const float *x, float *table)
{
    unsigned row = (ids[blockIdx.x] * 2654435761u >> 8) % words;
    for (int i = threadIdx.x; i < 512; i += blockDim.x)
        atomicAdd(&table[row * 512 + i], x[blockIdx.x * 512 + i]);
}
