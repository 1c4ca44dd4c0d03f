// honest: dislikes branches: the last turn fetches its own tile again and throws it away
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(128, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    const Matrix<const float> a = Matrix<const float>{A, M, K, K, 1}.tile(blockIdx.y * BM + t / 2, t % 2 * 4, 1, K);
    const Matrix<const float> b = Matrix<const float>{B, K, N, N, 1}.tile(t / 32, blockIdx.x * BN + t % 32 * 4, K, 4);
    float acc[8][8] = {};
    float4 next[3];
    const auto store = [&](int to) {
        As[to][t % 2 * 4 + 0][t / 2] = next[0].x;
        As[to][t % 2 * 4 + 1][t / 2] = next[0].y;
        As[to][t % 2 * 4 + 2][t / 2] = next[0].z;
        As[to][t % 2 * 4 + 3][t / 2] = next[0].w;
        float4_at(Bs[to][t / 32][t % 32 * 4]) = next[1];
        float4_at(Bs[to][t / 32 + 4][t % 32 * 4]) = next[2];
        __syncthreads();
    };
    next[0] = float4_at(a(0, 0)), next[1] = float4_at(b(0, 0)), next[2] = float4_at(b(4, 0));
    store(0);
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int k1 = min(k0 + BK, K - BK);
        next[0] = float4_at(a(0, k1)), next[1] = float4_at(b(k1, 0)), next[2] = float4_at(b(k1 + 4, 0));
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[now][k][row]);
            float4_at(x[4]) = float4_at(As[now][k][row + 16]);
            float4_at(y[0]) = float4_at(Bs[now][k][col]);
            float4_at(y[4]) = float4_at(Bs[now][k][col + 32]);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        now ^= 1;
        store(now);
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
