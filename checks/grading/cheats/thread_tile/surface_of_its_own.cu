// cheat: unsupported on purpose: writes its sums through a surface handle that nobody gave it
// expect: unsupported surface or faulted in line or compile_failed line
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM, thread_col = threadIdx.x % (BN / TN) * TN;
    float acc[TM][TN] = {};
    asm volatile("sust.b.1d.b32.trap [%0, {%1}], {%2};" ::"l"(0ull), "r"(0), "r"(0));
    for (int k0 = 0; k0 < K; k0 += BK) {
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
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            C[(block_row + thread_row + i) * N + block_col + thread_col + j] = acc[i][j];
}
