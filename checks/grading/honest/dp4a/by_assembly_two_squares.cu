// honest: writes dp4a in assembly and turns squares of B by prmt, a char4 at a time
#define LD4(p) (*reinterpret_cast<const int *>(p))

__device__ __forceinline__ int dp4(int a, int b, int c)
{
    int d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
__device__ __forceinline__ int prmt(int a, int b, int s)
{
    int d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(s));
    return d;
}

extern "C" __global__ void __launch_bounds__(128)
gemm(const signed char *A, const signed char *B, int *C, int M, int N, int K)
{
    __shared__ __align__(16) int sa[2][BK / 4][BM + 4];
    __shared__ __align__(16) int sb[2][BK / 4][BN];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int y = warp / 2 * 64 + (lane / 8 * 2 + lane % 2) * 4, x = warp % 2 * 32 + lane / 2 % 4 * 4;
    const signed char *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 16;
    const signed char *b = B + t / 16 * 4 * N + blockIdx.x * BN + t % 16 * 4;
    int4 va[2];
    int vb[4];
    int sum[8][8] = {};
#define GET(k)                                              \
    va[0] = *reinterpret_cast<const int4 *>(a + (k));       \
    va[1] = *reinterpret_cast<const int4 *>(a + (k) + 64 * K); \
    for (int i = 0; i < 4; i++)                             \
        vb[i] = LD4(b + ((k) + i) * N);
    auto put = [&](int s) {
        const int *w = &va[0].x, *v = &va[1].x;
        for (int i = 0; i < 4; i++) {
            sa[s][t % 2 * 4 + i][t / 2] = w[i];
            sa[s][t % 2 * 4 + i][t / 2 + 64] = v[i];
        }
        const int lo = prmt(vb[0], vb[1], 0x5140), hi = prmt(vb[2], vb[3], 0x5140);
        const int lo2 = prmt(vb[0], vb[1], 0x7362), hi2 = prmt(vb[2], vb[3], 0x7362);
        *reinterpret_cast<int4 *>(&sb[s][t / 16][t % 16 * 4]) =
            make_int4(prmt(lo, hi, 0x5410), prmt(lo, hi, 0x7632), prmt(lo2, hi2, 0x5410), prmt(lo2, hi2, 0x7632));
    };
    GET(0)
    put(0);
    for (int k0 = 0, s = 0; k0 < K; k0 += BK, s ^= 1) {
        __syncthreads();
        GET(min(k0 + BK, K - BK)) // behind the last tile the last one again
#pragma unroll
        for (int k = 0; k < BK / 4; k++) {
            int p[8], q[8];
            for (int h = 0; h < 2; h++) {
                *reinterpret_cast<int4 *>(&p[h * 4]) = *reinterpret_cast<int4 *>(&sa[s][k][y + h * 32]);
                *reinterpret_cast<int4 *>(&q[h * 4]) = *reinterpret_cast<int4 *>(&sb[s][k][x + h * 16]);
            }
            for (int j = 0; j < 8; j++)
                for (int i = 0; i < 8; i++)
                    sum[i][j] = dp4(p[i], q[j], sum[i][j]);
        }
        put(s ^ 1);
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<int4 *>(&C[(blockIdx.y * BM + y + i / 4 * 32 + i % 4) * N + blockIdx.x * BN + x + j * 4]) =
                make_int4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
}
