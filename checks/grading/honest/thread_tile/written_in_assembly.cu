// honest: a maxas reader: ld.shared.v4, fma.rn and st.global in inline assembly
static __device__ __forceinline__ float4 lds(unsigned at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float tile[2][BK][128]; // A transposed, then B
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    const unsigned shared = (unsigned)__cvta_generic_to_shared(tile);
    const unsigned at_a = shared + r * 4, at_b = shared + BK * 128 * 4 + c * 4;
    float acc[64];
#pragma unroll
    for (int i = 0; i < 64; i++)
        asm("mov.f32 %0, 0f00000000;" : "=f"(acc[i]));
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const int i = n * 256 + t;
            tile[0][i % BK][i / BK] = A[(blockIdx.y * BM + i / BK) * K + k0 + i % BK];
            tile[1][i / BN][i % BN] = B[(k0 + i / BN) * N + blockIdx.x * BN + i % BN];
        }
        asm volatile("bar.sync 0;" ::: "memory");
#pragma unroll
        for (int k = 0; k < BK; k++) {
            const float4 a0 = lds(at_a + k * 512), a1 = lds(at_a + k * 512 + 16);
            const float4 b0 = lds(at_b + k * 512), b1 = lds(at_b + k * 512 + 16);
            const float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            const float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
            for (int i = 0; i < 64; i++)
                asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc[i]) : "f"(a[i / 8]), "f"(b[i % 8]));
        }
        asm volatile("bar.sync 0;" ::: "memory");
    }
#pragma unroll
    for (int i = 0; i < 64; i++)
        asm volatile("st.global.f32 [%0], %1;" ::"l"(C + (blockIdx.y * BM + r + i / 8) * N + blockIdx.x * BN + c + i % 8), "f"(acc[i]) : "memory");
}
