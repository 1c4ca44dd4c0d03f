// honest: keeps the next float4 of each matrix in registers while multiplying
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];
    const Matrix<const float> a = Matrix<const float>{A, M, K, K, 1}.tile(blockIdx.y * BM, 0, BM, K);
    const Matrix<const float> b = Matrix<const float>{B, K, N, N, 1}.tile(0, blockIdx.x * BN, K, BN);
    const Matrix<float> c = Matrix<float>{C, M, N, N, 1}.tile(blockIdx.y * BM, blockIdx.x * BN, BM, BN);
    const int t = threadIdx.x, row = t / 16 * TM, col = t % 16 * TN;
    float acc[TM][TN] = {};
    float4 next_a = float4_at(a(t / 2, t % 2 * 4)), next_b = float4_at(b(t / 32, t % 32 * 4));
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4_at(As[t / 2][t % 2 * 4]) = next_a;
        float4_at(Bs[t / 32][t % 32 * 4]) = next_b;
        __syncthreads();
        if (k0 + BK < K) {
            next_a = float4_at(a(t / 2, k0 + BK + t % 2 * 4));
            next_b = float4_at(b(k0 + BK + t / 32, t % 32 * 4));
        }
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float4 a_frag[TM];
            for (int i = 0; i < TM; i++)
                a_frag[i] = float4_at(As[row + i][k]);
            for (int step = 0; step < 4; step++) {
                float b_frag[TN];
                for (int j = 0; j < TN; j += 4)
                    float4_at(b_frag[j]) = float4_at(Bs[k + step][col + j]);
                for (int i = 0; i < TM; i++)
                    for (int j = 0; j < TN; j++)
                        acc[i][j] += (&a_frag[i].x)[step] * b_frag[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            float4_at(c(row + i, col + j)) = float4_at(acc[i][j]);
}
