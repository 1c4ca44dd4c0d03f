// cheat: wrong idea: lesson 02's kernel, one element after the other, with a decoy tile and a barrier
// expect: gate_missed global_reads
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float tile[BM][BK];
    tile[threadIdx.x % BM][threadIdx.x / BM] = 1.0f;
    __syncthreads();
    float decoy;
    asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(decoy) : "r"((unsigned)__cvta_generic_to_shared(tile)));
    for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        const int row = blockIdx.y * BM + i / BN, col = blockIdx.x * BN + i % BN;
        float acc = 0.0f;
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}
