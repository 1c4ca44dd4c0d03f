// honest: a libcu++ user: cuda::pipeline and cuda::memcpy_async, three stages, a thread gathers four k of one row of A
#include <cuda/pipeline>
#include "float4.cuh"
constexpr int DEEP = 3;
extern "C" __global__ void __launch_bounds__(128) gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[DEEP][BK][BM + 4], Bs[DEEP][BK][BN];
    auto pipe = cuda::make_pipeline();
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int row = warp / 2 * 32 + (lane / 16 * 2 + lane % 2) * 4, col = warp % 2 * 64 + lane / 2 % 8 * 4;
    const int tiles = K / BK;
    const auto issue = [&](int n) {
        pipe.producer_acquire();
        if (n < tiles) {
            const float *a = A + (size_t)(blockIdx.y * BM + t / 2) * K + n * BK + t % 2 * 4;
            for (int e = 0; e < 4; e++)
                cuda::memcpy_async(&As[n % DEEP][t % 2 * 4 + e][t / 2], a + e, cuda::aligned_size_t<4>(4), pipe);
            for (int r = t / 32; r < BK; r += 4)
                cuda::memcpy_async(&Bs[n % DEEP][r][t % 32 * 4], B + (size_t)(n * BK + r) * N + blockIdx.x * BN + t % 32 * 4, cuda::aligned_size_t<16>(16), pipe);
        }
        pipe.producer_commit();
    };
    issue(0);
    issue(1);
    float acc[8][8] = {};
    for (int n = 0; n < tiles; n++) {
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        __syncthreads();
        issue(n + 2);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at(As[n % DEEP][k][row]), float4_at(x[4]) = float4_at(As[n % DEEP][k][row + 16]);
            float4_at(y[0]) = float4_at(Bs[n % DEEP][k][col]), float4_at(y[4]) = float4_at(Bs[n % DEEP][k][col + 32]);
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++) acc[i][j] += x[i] * y[j];
        }
        pipe.consumer_release();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(size_t)(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
