// cheat: wrong idea: keeps its sums in C between the tiles, not in registers
// expect: gate_missed global_reads
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM, thread_col = threadIdx.x % (BN / TN) * TN;
    for (int k0 = 0; k0 < K; k0 += BK) {
        float acc[TM][TN] = {};
        for (int i = 0; k0 && i < TM; i++)
            for (int j = 0; j < TN; j++)
                acc[i][j] = C[(block_row + thread_row + i) * N + block_col + thread_col + j];
        for (int i = threadIdx.x; i < BM * BK; i += THREADS)
            As[i / BK][i % BK] = A[(block_row + i / BK) * K + k0 + i % BK];
        for (int i = threadIdx.x; i < BK * BN; i += THREADS)
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + block_col + i % BN];
        __syncthreads();
        for (int k = 0; k < BK; k++)
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += As[thread_row + i][k] * Bs[k][thread_col + j];
        __syncthreads();
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j++)
                C[(block_row + thread_row + i) * N + block_col + thread_col + j] = acc[i][j];
    }
}
