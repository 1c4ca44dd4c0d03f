// Transposition through a 32x32 tile: plain (32-way conflict), padded by one, and swizzled by the row.
enum Layout { PLAIN, PADDED, SWIZZLED };

template <Layout LAYOUT>
__global__ void transpose(const float *in, float *out, int rows, int cols)
{
    __shared__ float tile[32][LAYOUT == PADDED ? 33 : 32];
    const int x = threadIdx.x;
    const int col = blockIdx.x * 32 + x;
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
        const int row = blockIdx.y * 32 + y;
        if (row < rows && col < cols)
            tile[y][LAYOUT == SWIZZLED ? x ^ y : x] = in[row * cols + col];
    }
    __syncthreads();
    const int out_col = blockIdx.y * 32 + x;
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
        const int out_row = blockIdx.x * 32 + y;
        if (out_row < cols && out_col < rows)
            out[out_row * rows + out_col] = tile[x][LAYOUT == SWIZZLED ? y ^ x : y];
    }
}

// Four columns a thread, 128-bit on both sides.
__global__ void transpose_vector(const float4 *in, float4 *out, int rows, int cols)
{
    __shared__ float tile[32][36];
    const int y = threadIdx.x / 8;
    const int x = threadIdx.x % 8;
    const float4 four = in[((blockIdx.y * 32 + y) * cols + blockIdx.x * 32) / 4 + x];
    *reinterpret_cast<float4 *>(&tile[y][4 * x]) = four;
    __syncthreads();
    const float4 turned = make_float4(tile[4 * x][y], tile[4 * x + 1][y], tile[4 * x + 2][y], tile[4 * x + 3][y]);
    out[((blockIdx.x * 32 + y) * rows + blockIdx.y * 32) / 4 + x] = turned;
}
