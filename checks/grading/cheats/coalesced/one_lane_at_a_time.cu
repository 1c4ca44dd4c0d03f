// cheat: diluted mean: stores one below the other, every lane in its turn: one sector a request, 32 requests
// expect: gate_missed sectors_written
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float tile[BM][BN + 1];
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    if (row < M && col < N)
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
    tile[threadIdx.x / BN][threadIdx.x % BN] = acc;
    __syncthreads();
    const int store_row = blockIdx.y * BM + threadIdx.x % BM;
    const int store_col = blockIdx.x * BN + threadIdx.x / BM;
#pragma unroll 1
    for (int lane = 0; lane < 32; lane++)
        if (threadIdx.x % 32 == lane && store_row < M && store_col < N)
            C[store_row * N + store_col] = tile[threadIdx.x % BM][threadIdx.x / BM];
}
