// honest: a maxas reader: v4 loads and stores in assembly, every one of them
static __device__ __forceinline__ float4 ldg4(const float *p)
{
    float4 v;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    return v;
}
static __device__ __forceinline__ float4 lds4(unsigned p)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(p));
    return v;
}
static __device__ __forceinline__ void sts4(unsigned p, float4 v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
static __device__ __forceinline__ void stg4(float *p, float a, float b, float c, float d)
{
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float memory[BM * BK + BK * BN];
    const unsigned as = (unsigned)__cvta_generic_to_shared(memory), bs = as + BM * BK * 4;
    const unsigned t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8] = {};
    for (int left = K; left > 0; left -= BK) {
        sts4(as + t * 16, ldg4(a));
        sts4(bs + t * 16, ldg4(b));
        a += BK;
        b += BK * N;
        asm volatile("bar.sync 0;" ::: "memory");
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float x[8][4], y[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const float4 v = lds4(as + ((r + i) * BK + k) * 4);
                x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
            }
#pragma unroll
            for (int s = 0; s < 4; s++) {
                const float4 v = lds4(bs + ((k + s) * BN + c) * 4), w = lds4(bs + ((k + s) * BN + c + 4) * 4);
                y[0] = v.x, y[1] = v.y, y[2] = v.z, y[3] = v.w;
                y[4] = w.x, y[5] = w.y, y[6] = w.z, y[7] = w.w;
#pragma unroll
                for (int i = 0; i < 64; i++)
                    asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc[i / 8][i % 8]) : "f"(x[i / 8][s]), "f"(y[i % 8]));
            }
        }
        asm volatile("bar.sync 0;" ::: "memory");
    }
    float *to = C + (blockIdx.y * BM + r) * N + blockIdx.x * BN + c;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        stg4(to + i * N, acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
        stg4(to + i * N + 4, acc[i][4], acc[i][5], acc[i][6], acc[i][7]);
    }
}
