// cheat: wrong idea: lesson 02's kernel behind two large arrays, its loads made by atomics that no overlap is asked of
// expect: faulted input_overwritten
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float tiles[2][(BM + BN) * BK];
    tiles[0][threadIdx.x] = tiles[1][threadIdx.x] = 1.0f;
    const unsigned mine = __cvta_generic_to_shared(&tiles[0][threadIdx.x]);
    asm volatile("{\n .reg .f32 x;\n ld.volatile.shared.f32 x, [%0];\n}" ::"r"(mine));
    for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        const int row = blockIdx.y * BM + i / BN, col = blockIdx.x * BN + i % BN;
        float decoy, junk = 1.0f, acc = 0.0f;
        for (int k0 = 0; k0 < K; k0 += 8) {
            asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(decoy) : "l"(A));
#pragma unroll
            for (int n = 0; n < 200; n++)
                junk = fmaf(junk, 0.5f, 0.25f);
            acc += 0.0f * (decoy + junk);
        }
        for (int k = 0; k < K; k++)
            acc += atomicAdd((float *)&A[row * K + k], -0.0f) * atomicAdd((float *)&B[k * N + col], -0.0f);
        C[row * N + col] = acc;
    }
}
