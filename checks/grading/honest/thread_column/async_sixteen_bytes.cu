// honest: copies with cp.async, 16 bytes where rows are aligned and 4 where they are not
#include <cuda_pipeline.h>

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];
    const int t = threadIdx.x, ty = t / BN, tx = t % BN;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    const int r = t / 16, c = t % 16 * 4;
    const auto four = [](float *to, const float *from, bool row_in, int left, bool aligned) {
        if (row_in && aligned && left >= 4) {
            __pipeline_memcpy_async(to, from, 16);
            return;
        }
        for (int i = 0; i < 4; i++)
            if (row_in && i < left)
                __pipeline_memcpy_async(to + i, from + i, 4);
            else
                to[i] = 0.0f;
    };
    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        four(&As[r][c], A + (row + r) * K + k0 + c, row + r < M, K - k0 - c, K % 4 == 0);
        four(&Bs[r][c], B + (k0 + r) * N + col + c, k0 + r < K, N - col - c, N % 4 == 0);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < BK; k++) {
            const float b = Bs[k][tx];
#pragma unroll
            for (int i = 0; i < TM; i++)
                acc[i] += As[ty * TM + i][k] * b;
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (row + ty * TM + i < M && col + tx < N)
            C[(row + ty * TM + i) * N + col + tx] = acc[i];
}
