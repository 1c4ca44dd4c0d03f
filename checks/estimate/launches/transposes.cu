// out[x][y] = in[y][x], both square with n a multiple of 32; blocks of 32 x 8 threads.

constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void naive(int n, const float *in, float *out)
{
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        out[x * n + y + j] = in[(y + j) * n + x];
}

template <int PITCH, bool SWIZZLED>
__device__ void through_shared(int n, const float *in, float *out)
{
    __shared__ float tile[TILE][PITCH];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = threadIdx.y; j < TILE; j += ROWS) {
        int column = SWIZZLED ? threadIdx.x ^ j : threadIdx.x;
        tile[j][column] = in[(y - threadIdx.y + j) * n + x];
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE;
    for (int j = threadIdx.y; j < TILE; j += ROWS) {
        int column = SWIZZLED ? j ^ threadIdx.x : j;
        out[(y + j) * n + x] = tile[threadIdx.x][column];
    }
}

extern "C" __global__ void conflicting(int n, const float *in, float *out)
{
    through_shared<TILE, false>(n, in, out);
}

extern "C" __global__ void padded(int n, const float *in, float *out)
{
    through_shared<TILE + 1, false>(n, in, out);
}

extern "C" __global__ void swizzled(int n, const float *in, float *out)
{
    through_shared<TILE, true>(n, in, out);
}
