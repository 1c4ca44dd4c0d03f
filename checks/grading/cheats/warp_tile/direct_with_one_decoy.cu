// cheat: wrong idea: lesson 02's kernel with one shared access, so that no ratio is without a value
// expect: gate_missed global_reads
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float tile[128];
    tile[threadIdx.x] = 1.0f;
    const unsigned mine = __cvta_generic_to_shared(&tile[threadIdx.x]);
    asm volatile("{\n .reg .f32 x;\n ld.volatile.shared.f32 x, [%0];\n}" ::"r"(mine));
    for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        const int row = blockIdx.y * BM + i / BN, col = blockIdx.x * BN + i % BN;
        float acc = 0.0f;
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}
