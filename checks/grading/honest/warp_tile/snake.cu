// honest: a maxas reader: the products of a patch in a serpentine, for the register banks
#include "float4.cuh"
#define LANE_ROW(l) (((l) >> 4) * 2 + ((l) & 1))
#define LANE_COL(l) (((l) >> 1) & 7)

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) float smem[BK * (BM + 4) + BK * BN];
    float *const as = smem, *const bs = smem + BK * (BM + 4);
    const int t = threadIdx.x, row = (t >> 6) * 32 + LANE_ROW(t & 31) * 4, col = ((t >> 5) & 1) * 64 + LANE_COL(t & 31) * 4;
    const float4 *ga = (const float4 *)(A + (blockIdx.y * BM + t / 2) * K) + t % 2;
    const float4 *gb = (const float4 *)(B + (t / 32) * N + blockIdx.x * BN) + t % 32;
    float *sa = as + t % 2 * 4 * (BM + 4) + t / 2;
    float4 *sb = (float4 *)bs + t;
    float acc[8][8] = {};
    int left = K;
    do {
        const float4 v = __ldg(ga), u = __ldg(gb), w = __ldg(gb + N);
        sa[0] = v.x, sa[BM + 4] = v.y, sa[2 * (BM + 4)] = v.z, sa[3 * (BM + 4)] = v.w;
        sb[0] = u, sb[128] = w;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(as[k * (BM + 4) + row]);
            float4_at(x[4]) = float4_at(as[k * (BM + 4) + row + 16]);
            float4_at(y[0]) = float4_at(bs[k * BN + col]);
            float4_at(y[4]) = float4_at(bs[k * BN + col + 32]);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    const int s = i & 1 ? 7 - j : j;
                    acc[i][s] += x[i] * y[s];
                }
        }
        __syncthreads();
        ga += BK / 4;
        gb += BK * N / 4;
    } while (left -= BK);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float *c = C + (blockIdx.y * BM + row + (i >> 2) * 16 + (i & 3)) * N + blockIdx.x * BN + col;
        __stcs((float4 *)c, float4_at(acc[i][0]));
        __stcs((float4 *)(c + 32), float4_at(acc[i][4]));
    }
}
