// Each element from its neighbours. Borders are left out.

extern "C" __global__ void five_points(int n, const float *in, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1)
        return;
    const float *at = in + y * n + x;
    out[y * n + x] = 0.2f * (at[0] + at[-1] + at[1] + at[-n] + at[n]);
}

extern "C" __global__ void five_points_shared(int n, const float *in, float *out)
{
    __shared__ float tile[18][34];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    for (int j = threadIdx.y; j < 18; j += 16)
        for (int i = threadIdx.x; i < 34; i += 32) {
            int column = blockIdx.x * 32 + i - 1, row = blockIdx.y * 16 + j - 1;
            bool inside = column >= 0 && row >= 0 && column < n && row < n;
            tile[j][i] = inside ? in[row * n + column] : 0.0f;
        }
    __syncthreads();
    int i = threadIdx.x + 1, j = threadIdx.y + 1;
    out[y * n + x] = 0.2f * (tile[j][i] + tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i]);
}

extern "C" __global__ void seven_points(int n, const float *in, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= n - 1 || y >= n - 1 || z >= n - 1)
        return;
    int i = (z * n + y) * n + x;
    out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - n * n] + in[i + n * n]);
}

extern "C" __global__ void line(int n, const float *in, float *out)
{
    __shared__ float part[256 + 16];
    int tid = threadIdx.x, i = blockIdx.x * 256 + tid;
    part[tid + 8] = in[i];
    if (tid < 8) {
        part[tid] = i >= 8 ? in[i - 8] : 0.0f;
        part[tid + 264] = i + 256 < n ? in[i + 256] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int d = 0; d <= 16; ++d)
        sum += part[tid + d];
    out[i] = sum / 17.0f;
}

__constant__ float weights[49];

extern "C" __global__ void filter(int n, const float *in, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 3 || y < 3 || x >= n - 3 || y >= n - 3)
        return;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 7; ++j)
#pragma unroll
        for (int i = 0; i < 7; ++i)
            sum += weights[j * 7 + i] * in[(y + j - 3) * n + x + i - 3];
    out[y * n + x] = sum;
}
