// cheat: hidden loads: every number of the tiles is read as a single float, once in a warp, and goes from lane to lane by shuffles
// expect: gate_missed shared_accesses
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4_at(As[t / 2][(t + t / 8) % 2 * 4]) = float4_at(A[(row + t / 2) * K + k0 + t % 2 * 4]);
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(B[(k0 + t / 32) * N + col + t % 32 * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            // 8 rows of 4 k in a request, and 32 columns of one k: no lane reads more than one float.
            float as[2];
            for (int i = 0; i < 2; i++)
                as[i] = *(volatile float *)&As[warp * 16 + i * 8 + lane / 4][(k / 4 + lane / 16) % 2 * 4 + lane % 4];
            for (int step = 0; step < 4; step++) {
                float bs[4], b_frag[TN] = {};
                for (int i = 0; i < 4; i++)
                    bs[i] = Bs[k + step][i * 32 + lane];
                for (int j = 0; j < TN; j++)
                    for (int i = 0; i < 4; i++) {
                        const float it = __shfl_sync(~0u, bs[i], lane % 4 * TN + j);
                        if (lane % 16 / 4 == i)
                            b_frag[j] = it;
                    }
                for (int i = 0; i < TM; i++) {
                    const float low = __shfl_sync(~0u, as[0], i * 4 + step), high = __shfl_sync(~0u, as[1], i * 4 + step);
                    for (int j = 0; j < TN; j++)
                        acc[i][j] += (lane < 16 ? low : high) * b_frag[j];
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            float4_at(C[(row + warp * 16 + lane / 16 * TM + i) * N + col + lane % 16 * TN + j]) = float4_at(acc[i][j]);
}
