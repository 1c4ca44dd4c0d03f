// A padded tile, 16 x 17. broken: the column of padding, which nobody writes, is added too.
extern "C" __global__ void broken(const float *A, float *C, int width)
{
    __shared__ float tile[16][17];
    const int row = threadIdx.x / 16, col = threadIdx.x % 16;
    tile[row][col] = A[threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k <= width; ++k)
        sum += tile[row][k];              // here: uninitialised
    C[threadIdx.x] = sum;
}

extern "C" __global__ void fixed(const float *A, float *C, int width)
{
    __shared__ float tile[16][17];
    const int row = threadIdx.x / 16, col = threadIdx.x % 16;
    tile[row][col] = A[threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < width; ++k)
        sum += tile[row][k];
    C[threadIdx.x] = sum;
}
