// cheat: wrong idea: one lane reads, the others get the numbers by shuffles: few loads, but no reuse in registers
// expect: gate_missed shared_reads
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM, thread_col = threadIdx.x % (BN / TN) * TN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS)
            As[i / BK][i % BK] = A[(block_row + i / BK) * K + k0 + i % BK];
        for (int i = threadIdx.x; i < BK * BN; i += THREADS)
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + block_col + i % BN];
        __syncthreads();
        const int lane = threadIdx.x % 32;
#pragma unroll 1
        for (int k = 0; k < BK; k++) {
            const float a_mine = As[threadIdx.x / 32 * 2 * TM + lane % 16][k];
            float b_mine[4];
            for (int n = 0; n < 4; n++)
                b_mine[n] = Bs[k][lane * 4 + n];
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    const float a = __shfl_sync(~0u, a_mine, lane / 16 * 8 + i);
                    const float b = __shfl_sync(~0u, b_mine[j % 4], lane % 16 * 2 + j / 4);
                    acc[i][j] += a * b;
                }
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            C[(block_row + thread_row + i) * N + block_col + thread_col + j] = acc[i][j];
}
