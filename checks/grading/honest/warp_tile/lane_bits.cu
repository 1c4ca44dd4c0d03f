// honest: learned from CUTLASS: lanes interleaved in twos, with shifts and masks
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4];
    __shared__ __align__(16) float Bs[BK][BN];
    const unsigned t = threadIdx.x, warp = t >> 5, lane = t & 31;
    const unsigned lane_row = ((lane & 16) >> 3) | (lane & 1), lane_col = (lane >> 1) & 7;
    const unsigned row = ((warp >> 1) << 5) + (lane_row << 2), col = ((warp & 1) << 6) + (lane_col << 2);
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 v = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        As[t % 2 * 4 + 0][t / 2] = v.x;
        As[t % 2 * 4 + 1][t / 2] = v.y;
        As[t % 2 * 4 + 2][t / 2] = v.z;
        As[t % 2 * 4 + 3][t / 2] = v.w;
#pragma unroll
        for (int r = 0; r < BK; r += 4)
            float4_at(Bs[r + t / 32][t % 32 * 4]) = float4_at(B[(k0 + r + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[k][row]);
            float4_at(x[4]) = float4_at(As[k][row + 16]);
            float4_at(y[0]) = float4_at(Bs[k][col]);
            float4_at(y[4]) = float4_at(Bs[k][col + 32]);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
