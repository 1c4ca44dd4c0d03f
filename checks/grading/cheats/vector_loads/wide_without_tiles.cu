// cheat: wrong idea: float4 straight from global memory, no tile but a decoy
// expect: gate_missed global_accesses
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ alignas(16) float tile[BM * BN / (TM * TN) * 4];
    *(float4 *)&tile[threadIdx.x * 4] = float4{1.0f, 2.0f, 3.0f, 4.0f};
    __syncthreads();
    const unsigned mine = __cvta_generic_to_shared(&tile[threadIdx.x * 4]);
    asm volatile("{\n .reg .f32 x<4>;\n ld.volatile.shared.v4.f32 {x0, x1, x2, x3}, [%0];\n}" ::"r"(mine));
    for (int i = threadIdx.x * 4; i < BM * BN; i += blockDim.x * 4) {
        const int row = blockIdx.y * BM + i / BN, col = blockIdx.x * BN + i % BN;
        float4 acc = {};
        for (int k = 0; k < K; k += 4) {
            const float4 a = *(const float4 *)&A[row * K + k];
            const float of_a[4] = {a.x, a.y, a.z, a.w};
            for (int n = 0; n < 4; n++) {
                const float4 b = *(const float4 *)&B[(k + n) * N + col];
                acc.x += of_a[n] * b.x;
                acc.y += of_a[n] * b.y;
                acc.z += of_a[n] * b.z;
                acc.w += of_a[n] * b.w;
            }
        }
        *(float4 *)&C[row * N + col] = acc;
    }
}
