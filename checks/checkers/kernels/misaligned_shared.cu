// Padding a row of shared memory by one float. broken: float4 stores then start at any multiple of 4 bytes.
extern "C" __global__ void broken(const float4 *A, float *C)
{
    __shared__ __align__(16) float tile[8][33];
    const int row = threadIdx.x / 8, col = threadIdx.x % 8 * 4;
    *(float4 *)&tile[row][col] = A[threadIdx.x];   // here: misaligned
    __syncthreads();
    C[threadIdx.x] = tile[threadIdx.x % 8][threadIdx.x / 8];
}

extern "C" __global__ void fixed(const float4 *A, float *C)
{
    __shared__ __align__(16) float tile[8][36];
    const int row = threadIdx.x / 8, col = threadIdx.x % 8 * 4;
    *(float4 *)&tile[row][col] = A[threadIdx.x];
    __syncthreads();
    C[threadIdx.x] = tile[threadIdx.x % 8][threadIdx.x / 8];
}
