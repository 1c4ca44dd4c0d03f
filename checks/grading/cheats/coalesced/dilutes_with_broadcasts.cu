// cheat: diluted mean: lesson 01 with twenty useless loads of one sector beside each real one
// expect: gate_missed sectors_read
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float tile[BM][BN + 1];
    const int row = blockIdx.y * BM + threadIdx.x % BM; // lesson 01's way
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    float acc = 0.0f, junk = 0.0f;
    if (row < M && col < N)
        for (int k = 0; k < K; k++) {
            acc += A[row * K + k] * B[k * N + col];
#pragma unroll
            for (int i = 0; i < 20; i++)
                junk += *(volatile const float *)&A[0];
        }
    tile[threadIdx.x % BM][threadIdx.x / BM] = acc + 0.0f * junk;
    __syncthreads();
    const int store_row = blockIdx.y * BM + threadIdx.x / BN, store_col = blockIdx.x * BN + threadIdx.x % BN;
    if (store_row < M && store_col < N)
        C[store_row * N + store_col] = tile[threadIdx.x / BN][threadIdx.x % BN];
}
