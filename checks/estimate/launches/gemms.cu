// C = A B, row-major unless a comment says otherwise, in ways that no lesson has. Sizes are multiples of the tiles.

// 64 threads with 8 x 8 sums each, scalar accesses to swizzled tiles.
extern "C" __global__ void few_threads(int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[16][64], bs[16][64];
    int tid = threadIdx.x, tx = tid % 8, ty = tid / 8, row = blockIdx.y * 64, col = blockIdx.x * 64;
    float sum[8][8] = {};
    for (int first = 0; first < k; first += 16) {
        for (int i = tid; i < 1024; i += 64) {
            int depth = i % 16, r = i / 16;
            as[depth][r ^ (depth * 2 & 31)] = a[(row + r) * k + first + depth];
            bs[i / 64][i % 64] = b[(first + i / 64) * n + col + i % 64];
        }
        __syncthreads();
        for (int d = 0; d < 16; ++d) {
            float left[8], right[8];
            for (int i = 0; i < 8; ++i) {
                left[i] = as[d][(ty + 8 * i) ^ (d * 2 & 31)];
                right[i] = bs[d][tx + 8 * i];
            }
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    sum[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j)
            c[(row + ty + 8 * i) * n + col + tx + 8 * j] = sum[i][j];
}

// No shared memory: 4 x 4 sums, all factors from L1.
extern "C" __global__ void from_l1(int n, int k, const float *a, const float *b, float *c)
{
    int row = (blockIdx.y * 16 + threadIdx.y) * 4, col = (blockIdx.x * 16 + threadIdx.x) * 4;
    float sum[4][4] = {};
    for (int d = 0; d < k; ++d) {
        float left[4], right[4];
        for (int i = 0; i < 4; ++i) {
            left[i] = a[(row + i) * k + d];
            right[i] = b[d * n + col + i];
        }
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                sum[i][j] += left[i] * right[j];
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            c[(row + i) * n + col + j] = sum[i][j];
}

// No shared memory: 2 rows x 4 columns by vectors.
extern "C" __global__ void vectors(int n, int k, const float *a, const float4 *b, float4 *c)
{
    int row = (blockIdx.y * 8 + threadIdx.y) * 2, col = blockIdx.x * 32 + threadIdx.x, n4 = n / 4;
    float4 sum[2] = {};
    for (int d = 0; d < k; d += 4) {
        float4 left[2] = {*(const float4 *)&a[row * k + d], *(const float4 *)&a[(row + 1) * k + d]};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float4 right = b[(d + i) * n4 + col];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float x = i == 0 ? left[r].x : i == 1 ? left[r].y : i == 2 ? left[r].z : left[r].w;
                sum[r].x += x * right.x, sum[r].y += x * right.y, sum[r].z += x * right.z, sum[r].w += x * right.w;
            }
        }
    }
    c[row * n4 + col] = sum[0];
    c[(row + 1) * n4 + col] = sum[1];
}

// A warp has 32 columns and 8 rows; a lane's factors of A go round by shuffles.
extern "C" __global__ void shuffled(int n, int k, const float *a, const float *b, float *c)
{
    int lane = threadIdx.x, row = (blockIdx.y * 8 + threadIdx.y) * 8, col = blockIdx.x * 32 + lane;
    float sum[8] = {};
    for (int first = 0; first < k; first += 32) {
        float left[8];
        for (int i = 0; i < 8; ++i)
            left[i] = a[(row + i) * k + first + lane];
#pragma unroll 8
        for (int d = 0; d < 32; ++d) {
            float right = b[(first + d) * n + col];
            for (int i = 0; i < 8; ++i)
                sum[i] += __shfl_sync(0xffffffff, left[i], d) * right;
        }
    }
    for (int i = 0; i < 8; ++i)
        c[(row + i) * n + col] = sum[i];
}

// A tile of 64 x 64 by 256 threads, 16 deep; ``first`` to ``last`` of k.
__device__ void tile64(int n, int k, int first, int last, int row, int col, const float *a, const float *b,
                       float sum[4][4], float as[16][68], float bs[16][64])
{
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    for (; first < last; first += 16) {
        float4 left = *(const float4 *)&a[(row + tid / 4) * k + first + tid % 4 * 4];
        as[tid % 4 * 4][tid / 4] = left.x;
        as[tid % 4 * 4 + 1][tid / 4] = left.y;
        as[tid % 4 * 4 + 2][tid / 4] = left.z;
        as[tid % 4 * 4 + 3][tid / 4] = left.w;
        *(float4 *)&bs[tid / 16][tx * 4] = *(const float4 *)&b[(first + tid / 16) * n + col + tx * 4];
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 16; ++d) {
            float4 x = *(float4 *)&as[d][ty * 4], y = *(float4 *)&bs[d][tx * 4];
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sum[i][j] += xs[i] * ys[j];
        }
        __syncthreads();
    }
}

// Blocks along z share K and add up by atomics.
extern "C" __global__ void summed_by_atomics(int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[16][68], bs[16][64];
    float sum[4][4] = {};
    int share = k / gridDim.z, row = blockIdx.y * 64, col = blockIdx.x * 64;
    tile64(n, k, blockIdx.z * share, (blockIdx.z + 1) * share, row, col, a, b, sum, as, bs);
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            atomicAdd(&c[(row + threadIdx.x / 16 * 4 + i) * n + col + threadIdx.x % 16 * 4 + j], sum[i][j]);
}

// Blocks that stay take one tile after the other.
extern "C" __global__ void staying(int m, int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[16][68], bs[16][64];
    for (int tile = blockIdx.x; tile < m / 64 * (n / 64); tile += gridDim.x) {
        float sum[4][4] = {};
        int row = tile / (n / 64) * 64, col = tile % (n / 64) * 64;
        tile64(n, k, 0, k, row, col, a, b, sum, as, bs);
        for (int i = 0; i < 4; ++i)
            *(float4 *)&c[(row + threadIdx.x / 16 * 4 + i) * n + col + threadIdx.x % 16 * 4] =
                make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    }
}

// A is stored transposed, k x m: both tiles are copied as they are.
extern "C" __global__ void transposed_a(int m, int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[8][128], bs[8][128];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16, row = blockIdx.y * 128, col = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int first = 0; first < k; first += 8) {
        *(float4 *)&as[tid / 32][tid % 32 * 4] = *(const float4 *)&a[(first + tid / 32) * m + row + tid % 32 * 4];
        *(float4 *)&bs[tid / 32][tid % 32 * 4] = *(const float4 *)&b[(first + tid / 32) * n + col + tid % 32 * 4];
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 8; ++d) {
            float x[8], y[8];
            for (int i = 0; i < 8; ++i)
                x[i] = as[d][ty * 8 + i], y[i] = bs[d][tx + 16 * i];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j)
            c[(row + ty * 8 + i) * n + col + tx + 16 * j] = sum[i][j];
}

// 16 rows of A, which shared memory holds 256 deep; a thread has one column.
extern "C" __global__ void skinny(int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[256][16];
    int tid = threadIdx.x, col = blockIdx.x * 128 + tid;
    float sum[16] = {};
    for (int first = 0; first < k; first += 256) {
        __syncthreads();
        for (int i = tid; i < 4096; i += 128)
            as[i % 256][i / 256] = a[i / 256 * k + first + i % 256];
        __syncthreads();
#pragma unroll 4
        for (int d = 0; d < 256; ++d) {
            float right = b[(first + d) * n + col];
            for (int i = 0; i < 16; ++i)
                sum[i] += as[d][i] * right;
        }
    }
    for (int i = 0; i < 16; ++i)
        c[i * n + col] = sum[i];
}

// A matrix and a vector: a warp has a row.
extern "C" __global__ void vector_product(int m, int k, const float *a, const float *x, float *y)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int d = lane * 4; d < k; d += 128) {
        float4 left = *(const float4 *)&a[(long long)row * k + d], right = *(const float4 *)&x[d];
        sum += left.x * right.x + left.y * right.y + left.z * right.z + left.w * right.w;
    }
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0)
        y[row] = sum;
}

// Many products of 32 x 32, one a block.
extern "C" __global__ void batched(const float *a, const float *b, float *c)
{
    __shared__ float as[32][33], bs[32][33];
    int tx = threadIdx.x, ty = threadIdx.y, base = blockIdx.x * 1024;
    for (int i = ty; i < 32; i += 8)
        as[i][tx] = a[base + i * 32 + tx], bs[i][tx] = b[base + i * 32 + tx];
    __syncthreads();
    for (int i = ty; i < 32; i += 8) {
        float sum = 0.0f;
#pragma unroll
        for (int d = 0; d < 32; ++d)
            sum += as[i][d] * bs[d][tx];
        c[base + i * 32 + tx] = sum;
    }
}

// 32-bit integers, 2 x 2 sums of a tile of 32 x 32.
extern "C" __global__ void integers(int n, int k, const int *a, const int *b, int *c)
{
    __shared__ int as[32][33], bs[32][33];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32;
    int sum[2][2] = {};
    for (int first = 0; first < k; first += 32) {
        for (int i = 0; i < 32; i += 16)
            for (int j = 0; j < 32; j += 16) {
                as[ty + i][tx + j] = a[(row + ty + i) * k + first + tx + j];
                bs[ty + i][tx + j] = b[(first + ty + i) * n + col + tx + j];
            }
        __syncthreads();
#pragma unroll 8
        for (int d = 0; d < 32; ++d)
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    sum[i][j] += as[ty + 16 * i][d] * bs[d][tx + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            c[(row + ty + 16 * i) * n + col + tx + 16 * j] = sum[i][j];
}
