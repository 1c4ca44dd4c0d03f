// honest: who writes the loop by hand: pointers that move, B by cp.async in assembly, a snake by rows of pairs
#define NT ((BM / WM) * (BN / WN) * 32)

__device__ __forceinline__ void copy16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(NT, BLOCKS_PER_SM)
gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) float sa[2 * BK * (BM + 4)], sb[2 * BK * BN];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int cols = WN / TN;
    const int r0 = warp / (BN / WN) * WM + (lane / (2 * cols) * 2 + lane % 2) * 4;
    const int c0 = warp % (BN / WN) * WN + lane / 2 % cols * 4;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + blockIdx.x * BN;
    float4 hold[BM * BK / 4 / NT];
    float c[TM * TN];
#pragma unroll
    for (int i = 0; i < TM * TN; i++)
        c[i] = 0.0f;

    auto begin = [&](float *to) {
#pragma unroll
        for (int i = 0; i < BM * BK / 4 / NT; i++)
            hold[i] = *(const float4 *)(a + i / (BK / 8) * (NT / 2) * K + i % (BK / 8) * 8);
#pragma unroll
        for (int i = t; i < BK * BN / 4; i += NT)
            copy16(to + i * 4, b + i / (BN / 4) * N + i % (BN / 4) * 4);
        asm volatile("cp.async.commit_group;" ::: "memory");
        a += BK;
        b += BK * N;
    };
    auto end = [&](float *to) {
#pragma unroll
        for (int i = 0; i < BM * BK / 4 / NT; i++) {
            float *p = to + (t % 2 * 4 + i % (BK / 8) * 8) * (BM + 4) + t / 2 + i / (BK / 8) * (NT / 2);
            p[0] = hold[i].x;
            p[BM + 4] = hold[i].y;
            p[2 * BM + 8] = hold[i].z;
            p[3 * BM + 12] = hold[i].w;
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    };
    begin(sb);
    end(sa);
    __syncthreads();
    for (int n = K / BK, s = 0; n > 0; n--, s ^= 1) {
        if (n > 1)
            begin(sb + (s ^ 1) * BK * BN);
        const float *x = sa + s * BK * (BM + 4) + r0, *y = sb + s * BK * BN + c0;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float u[TM], v[TN];
            for (int i = 0; i < TM; i += 4)
                *(float4 *)&u[i] = *(const float4 *)&x[k * (BM + 4) + i / 4 * (WM / (TM / 4))];
            for (int j = 0; j < TN; j += 4)
                *(float4 *)&v[j] = *(const float4 *)&y[k * BN + j / 4 * (WN / (TN / 4))];
            for (int i = 0; i < TM; i++)
                for (int m = 0; m < TN; m++) {
                    const int j = i & 1 ? TN - 1 - m : m;
                    c[i * TN + j] = fmaf(u[i], v[j], c[i * TN + j]);
                }
        }
        if (n > 1)
            end(sa + (s ^ 1) * BK * (BM + 4));
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            *(float4 *)&C[(blockIdx.y * BM + r0 + i / 4 * (WM / (TM / 4)) + i % 4) * N + blockIdx.x * BN + c0 + j / 4 * (WN / (TN / 4))] =
                *(float4 *)&c[i * TN + j];
}
