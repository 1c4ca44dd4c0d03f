// cheat: wrong idea: lesson 03's two shared floats for each multiply-add
// expect: gate_missed shared_reads
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int ROWS = BM / TM;
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int thread_row = threadIdx.x / BN, thread_col = threadIdx.x % BN;
    const int block_row = blockIdx.y * BM, row = block_row + thread_row * TM, col = blockIdx.x * BN + thread_col;
    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = thread_row; r < BM; r += ROWS)
            As[r][thread_col] = block_row + r < M && k0 + thread_col < K ? A[(block_row + r) * K + k0 + thread_col] : 0.0f;
        for (int r = thread_row; r < BK; r += ROWS)
            Bs[r][thread_col] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TM; i++) // lesson 03's way: two numbers for each product
#pragma unroll 1
            for (int k = 0; k < BK; k++)
                acc[i] += *(volatile float *)&As[thread_row * TM + i][k] * *(volatile float *)&Bs[k][thread_col];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (row + i < M && col < N)
            C[(row + i) * N + col] = acc[i];
}
