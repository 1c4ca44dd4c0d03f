// honest: writes fma, loads and barriers in PTX
#define LDS4(v, at) asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"((v)[0]), "=f"((v)[1]), "=f"((v)[2]), "=f"((v)[3]) : "r"(at) : "memory")
#define STS1(at, v) asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory")
#define STS4(at, v) asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"((v).x), "f"((v).y), "f"((v).z), "f"((v).w) : "memory")

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) unsigned char memory[4 * BK * (BM + 4 + BN)];
    unsigned base, t, lane;
    asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(base) : "l"(memory));
    asm("mov.u32 %0, %%tid.x;" : "=r"(t));
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    const unsigned row = t / 64 * 32 + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * 64 + lane / 2 % 8 * 4;
    const unsigned as = base, bs = base + 4 * BK * (BM + 4);
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 v = *(const float4 *)&A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4];
        const float4 u = *(const float4 *)&B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4];
        const float4 w = *(const float4 *)&B[(k0 + t / 32 + 4) * N + blockIdx.x * BN + t % 32 * 4];
        const unsigned to = as + (t % 2 * 4 * (BM + 4) + t / 2) * 4;
        STS1(to, v.x);
        STS1(to + 4 * (BM + 4), v.y);
        STS1(to + 8 * (BM + 4), v.z);
        STS1(to + 12 * (BM + 4), v.w);
        STS4(bs + t * 16, u);
        STS4(bs + t * 16 + 2048, w);
        asm volatile("barrier.sync 0, 128;" ::: "memory");
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            LDS4(x, as + (k * (BM + 4) + row) * 4);
            LDS4(x + 4, as + (k * (BM + 4) + row + 16) * 4);
            LDS4(y, bs + (k * BN + col) * 4);
            LDS4(y + 4, bs + (k * BN + col + 32) * 4);
#pragma unroll
            for (int i = 0; i < 64; i++)
                asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc[i / 8][i % 8]) : "f"(x[i / 8]), "f"(y[i % 8]));
        }
        asm volatile("barrier.sync 0, 128;" ::: "memory");
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            *(float4 *)&C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8] =
                make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
}
