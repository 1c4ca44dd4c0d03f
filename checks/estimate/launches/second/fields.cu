// Stencils and convolutions.

// Nine points; a thread goes down eight rows.
extern "C" __global__ void nine_points(int n, const float *in, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * 8;
    if (x < 1 || x >= n - 1)
        return;
    float above = 0.0f, last = 0.0f, here = 0.0f;
    for (int row = max(y - 1, 0); row < min(y + 9, n); ++row) {
        const float *at = in + row * n + x;
        float sides = at[-1] + at[1], below = 0.1f * sides + 0.2f * at[0];
        if (row > y)
            out[(row - 1) * n + x] = above + here + below;
        above = last, last = below;
        here = 0.05f * sides + 0.1f * at[0];
    }
}

constexpr int R = 4;
__constant__ float taps[R + 1];

// A star of 25 points, all from global memory.
extern "C" __global__ void star(int n, const float *in, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < R || y < R || z < R || x >= n - R || y >= n - R || z >= n - R)
        return;
    const float *at = in + (z * n + y) * n + x;
    float sum = taps[0] * at[0];
#pragma unroll
    for (int r = 1; r <= R; ++r)
        sum += taps[r] * (at[-r] + at[r] + at[-r * n] + at[r * n] + at[-r * n * n] + at[r * n * n]);
    out[at - in] = sum;
}

// The same; a block goes along z with a plane in shared memory and a column of nine in registers.
extern "C" __global__ void star_planes(int n, const float *in, float *out)
{
    __shared__ float plane[8 + 2 * R][32 + 2 * R];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 32 + tx, y = blockIdx.y * 8 + ty;
    float column[2 * R + 1];
#pragma unroll
    for (int r = 0; r < 2 * R; ++r)
        column[r + 1] = in[(r * n + y) * n + x];
    for (int z = R; z < n - R; ++z) {
#pragma unroll
        for (int r = 0; r < 2 * R; ++r)
            column[r] = column[r + 1];
        column[2 * R] = in[((z + R) * n + y) * n + x];
        __syncthreads();
        for (int j = ty; j < 8 + 2 * R; j += 8)
            for (int i = tx; i < 32 + 2 * R; i += 32) {
                int row = min(max((int)blockIdx.y * 8 + j - R, 0), n - 1), col = min(max((int)blockIdx.x * 32 + i - R, 0), n - 1);
                plane[j][i] = in[(z * n + row) * n + col];
            }
        __syncthreads();
        float sum = taps[0] * column[R];
#pragma unroll
        for (int r = 1; r <= R; ++r)
            sum += taps[r] * (plane[ty + R][tx + R - r] + plane[ty + R][tx + R + r] + plane[ty + R - r][tx + R] +
                              plane[ty + R + r][tx + R] + column[R - r] + column[R + r]);
        if (x >= R && y >= R && x < n - R && y < n - R)
            out[(z * n + y) * n + x] = sum;
    }
}

// 3 x 3, 64 channels to 64 of size 56 x 56: one output a thread; in and out are [image][channel][56][56].
extern "C" __global__ void convolve(const float *in, const float *weights, float *out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x, x = at % 56, y = at / 56, to = blockIdx.y;
    if (y >= 56)
        return;
    const float *image = in + blockIdx.z * 64 * 56 * 56;
    float sum = 0.0f;
    for (int from = 0; from < 64; ++from)
        for (int j = -1; j <= 1; ++j)
            for (int i = -1; i <= 1; ++i)
                if (x + i >= 0 && x + i < 56 && y + j >= 0 && y + j < 56)
                    sum += weights[((to * 64 + from) * 3 + j + 1) * 3 + i + 1] * image[(from * 56 + y + j) * 56 + x + i];
    out[(blockIdx.z * 64 + to) * 56 * 56 + at] = sum;
}

// The same; a block has 8 rows and 16 channels, a thread 16 sums; eight channels at a time in shared memory.
extern "C" __global__ void convolve16(const float *in, const float *weights, float *out)
{
    __shared__ float part[8][10][58], own[8][9][16];
    int tid = threadIdx.x, x = tid % 56, y = tid / 56, top = blockIdx.x * 8, to = blockIdx.y * 16;
    const float *image = in + blockIdx.z * 64 * 56 * 56;
    float sum[16] = {};
    for (int first = 0; first < 64; first += 8) {
        __syncthreads();
        for (int i = tid; i < 8 * 10 * 58; i += 448) {
            int channel = i / 580, row = top + i / 58 % 10 - 1, col = i % 58 - 1;
            bool inside = row >= 0 && row < 56 && col >= 0 && col < 56;
            ((float *)part)[i] = inside ? image[((first + channel) * 56 + row) * 56 + col] : 0.0f;
        }
        for (int i = tid; i < 8 * 9 * 16; i += 448)
            own[i / 144][i / 16 % 9][i % 16] = weights[((to + i % 16) * 64 + first + i / 144) * 9 + i / 16 % 9];
        __syncthreads();
        for (int channel = 0; channel < 8; ++channel)
#pragma unroll
            for (int tap = 0; tap < 9; ++tap) {
                float value = part[channel][y + tap / 3][x + tap % 3];
#pragma unroll
                for (int o = 0; o < 16; ++o)
                    sum[o] += own[channel][tap][o] * value;
            }
    }
#pragma unroll
    for (int o = 0; o < 16; ++o)
        out[((blockIdx.z * 64 + to + o) * 56 + top + y) * 56 + x] = sum[o];
}
