// cheat: wrong idea: columns of results as in lesson 04, and four numbers a load so that few instructions are counted
// expect: gate_missed floats read from shared memory per multiply-add
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    __shared__ alignas(16) float As[BM][BK];
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
#pragma unroll
        for (int j = 0; j < TN; j++)
#pragma unroll
            for (int k = 0; k < BK; k += 4)
#pragma unroll
                for (int i = 0; i < TM; i++) {
                    float a[4];
                    asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                                 : "=f"(a[0]), "=f"(a[1]), "=f"(a[2]), "=f"(a[3])
                                 : "r"((unsigned)__cvta_generic_to_shared(&As[thread_row + i][k])));
                    for (int n = 0; n < 4; n++)
                        acc[i][j] += a[n] * Bs[k + n][thread_col + j];
                }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            C[(block_row + thread_row + i) * N + block_col + thread_col + j] = acc[i][j];
}
