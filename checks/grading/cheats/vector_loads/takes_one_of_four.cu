// cheat: diluted mean: lesson 05 with every scalar access made a wide one of which one number is used
// expect: gate_missed shared_accesses
// Number i of x, by a load of the four that hold it.
__device__ float one_of(const float *x, int i)
{
    float a[4];
    asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(a[0]), "=f"(a[1]), "=f"(a[2]), "=f"(a[3])
                 : "r"((unsigned)__cvta_generic_to_shared(x + i / 4 * 4)));
    return i % 4 == 0 ? a[0] : i % 4 == 1 ? a[1] : i % 4 == 2 ? a[2] : a[3];
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    __shared__ alignas(16) float As[BM][BK];
    __shared__ alignas(16) float Bs[BK][BN];
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM, thread_col = threadIdx.x % (BN / TN) * TN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int r = threadIdx.x / 2, c = threadIdx.x % 2 * 4, s = threadIdx.x / 32, d = threadIdx.x % 32 * 4;
        *(float4 *)&As[r][c] = *(const float4 *)&A[(block_row + r) * K + k0 + c];
        *(float4 *)&Bs[s][d] = *(const float4 *)&B[(k0 + s) * N + block_col + d];
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; i++)
                a[i] = one_of(&As[thread_row + i][0], k);
            for (int j = 0; j < TN; j++)
                b[j] = one_of(&Bs[k][thread_col], j);
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            *(float4 *)&C[(block_row + thread_row + i) * N + block_col + thread_col + j] = *(float4 *)&acc[i][j];
}
