// 128 x 128 x 8 tiles, 8 x 8 neighbouring elements per thread, 16 x 16 threads; global memory by float4.
#define BM 128
#define BN 128
#define BK 8
#define TM 8
#define TN 8

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    float acc[TM][TN] = {};
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int row_a = thread / 2, col_a = thread % 2 * 4;
    const int row_b = thread / 32, col_b = thread % 32 * 4;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    for (int k0 = 0; k0 < K; k0 += BK) {
        *(float4 *)&As[row_a][col_a] = *(const float4 *)&A[(row + row_a) * K + k0 + col_a];
        *(float4 *)&Bs[row_b][col_b] = *(const float4 *)&B[(k0 + row_b) * N + col + col_b];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++)
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += As[threadIdx.y * TM + i][k] * Bs[k][threadIdx.x * TN + j];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            *(float4 *)&C[(row + threadIdx.y * TM + i) * N + col + threadIdx.x * TN + j] = *(float4 *)&acc[i][j];
}
