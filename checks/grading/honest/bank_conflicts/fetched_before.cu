// honest: keeps the next tile in registers, and stores it after the barrier
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4];
    __shared__ __align__(16) float Bs[BK][BN];
    const Matrix<const float> a = Matrix<const float>{A, M, K, K, 1}.tile(blockIdx.y * BM + threadIdx.x / 2, threadIdx.x % 2 * 4, 1, K);
    const Matrix<const float> b = Matrix<const float>{B, K, N, N, 1}.tile(threadIdx.x / 32, blockIdx.x * BN + threadIdx.x % 32 * 4, K, 4);
    const Matrix<float> c = Matrix<float>{C, M, N, N, 1}.tile(blockIdx.y * BM + threadIdx.x / 16 * 4, blockIdx.x * BN + threadIdx.x % 16 * 4, BM, BN);
    float acc[TM][TN] = {};
    float4 next_a = float4_at(a(0, 0)), next_b = float4_at(b(0, 0));
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[threadIdx.x % 2 * 4 + 0][threadIdx.x / 2] = next_a.x;
        As[threadIdx.x % 2 * 4 + 1][threadIdx.x / 2] = next_a.y;
        As[threadIdx.x % 2 * 4 + 2][threadIdx.x / 2] = next_a.z;
        As[threadIdx.x % 2 * 4 + 3][threadIdx.x / 2] = next_a.w;
        float4_at(Bs[threadIdx.x / 32][threadIdx.x % 32 * 4]) = next_b;
        __syncthreads();
        const int k1 = min(k0 + BK, K - BK);
        next_a = float4_at(a(0, k1));
        next_b = float4_at(b(k1, 0));
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM], b_frag[TN];
            for (int i = 0; i < TM; i += 4)
                float4_at(a_frag[i]) = float4_at(As[k][threadIdx.x / 16 * 4 + i * 16]);
            for (int j = 0; j < TN; j += 4)
                float4_at(b_frag[j]) = float4_at(Bs[k][threadIdx.x % 16 * 4 + j * 16]);
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            float4_at(c(i / 4 * 64 + i % 4, j * 16)) = float4_at(acc[i][j]);
}
