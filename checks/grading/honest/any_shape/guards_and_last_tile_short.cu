// honest: asks at every load, lets the last tile be the short one and fills all that is outside with zeros
#include "floats.cuh"

#define THREADS ((BM / WM) * (BN / WN) * 32)

template <int ROWS, bool ALONG_K, int W>
__device__ __forceinline__ void get(float (&r)[ROWS * BK / THREADS], const float *X, int ld, int rows, int K, int row0, int k0)
{
#pragma unroll
    for (int i = 0; i < ROWS * BK / THREADS; i += W) {
        int at = threadIdx.x * W + i * THREADS;
        int row = row0 + (ALONG_K ? at / BK : at % ROWS);
        int k = k0 + (ALONG_K ? at % BK : at / ROWS);
        Floats<W> v = {};
        if (row < rows && k < K)
            v = floats_at<W>(X[ALONG_K ? (size_t)row * ld + k : (size_t)k * ld + row]);
        for (int e = 0; e < W; e++)
            r[i + e] = v.at[e];
    }
}

template <int ROWS, bool ALONG_K, int W>
__device__ __forceinline__ void put(float (*tile)[ROWS + 4], const float (&r)[ROWS * BK / THREADS])
{
#pragma unroll
    for (int i = 0; i < ROWS * BK / THREADS; i += W) {
        int at = threadIdx.x * W + i * THREADS;
        if (ALONG_K) {
            for (int e = 0; e < W; e++)
                tile[at % BK + e][at / BK] = r[i + e];
        } else {
            Floats<W> v;
            for (int e = 0; e < W; e++)
                v.at[e] = r[i + e];
            floats_at<W>(tile[at / ROWS][at % ROWS]) = v;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
gemm(const float *A, const float *B, float *C, int M, int N, int K, int lda, int ldb, int ldc)
{
    __shared__ __align__(16) float sa[2][BK][BM + 4];
    __shared__ __align__(16) float sb[2][BK][BN + 4];
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    constexpr int L = WN / TN, DOWN = WM / (TM / 4), RIGHT = WN / (TN / 4); // L lanes beside each other, TM x TN sums each
    const int ty = warp / (BN / WN) * WM + (lane / (2 * L) * 2 + (lane & 1)) * 4;
    const int tx = warp % (BN / WN) * WN + (lane >> 1) % L * 4;

    float ra[BM * BK / THREADS], rb[BN * BK / THREADS], sum[TM][TN] = {};
    get<BM, !TRANS_A, WIDTH_A>(ra, A, lda, M, K, m0, 0);
    get<BN, TRANS_B, WIDTH_B>(rb, B, ldb, N, K, n0, 0);
    put<BM, !TRANS_A, WIDTH_A>(sa[0], ra);
    put<BN, TRANS_B, WIDTH_B>(sb[0], rb);
    __syncthreads();
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const bool more = k0 + BK < K;
        if (more) {
            get<BM, !TRANS_A, WIDTH_A>(ra, A, lda, M, K, m0, k0 + BK);
            get<BN, TRANS_B, WIDTH_B>(rb, B, ldb, N, K, n0, k0 + BK);
        }
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[TM], y[TN];
            for (int i = 0; i < TM; i += 4)
                *(float4 *)&x[i] = *(float4 *)&sa[now][k][ty + i / 4 * DOWN];
            for (int j = 0; j < TN; j += 4)
                *(float4 *)&y[j] = *(float4 *)&sb[now][k][tx + j / 4 * RIGHT];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
        }
        if (more) {
            put<BM, !TRANS_A, WIDTH_A>(sa[now ^ 1], ra);
            put<BN, TRANS_B, WIDTH_B>(sb[now ^ 1], rb);
            __syncthreads();
        }
        now ^= 1;
    }
#pragma unroll
    for (int i = 0; i < TM; i++) {
        int row = m0 + ty + i / 4 * DOWN + i % 4;
        if (row >= M)
            continue;
#pragma unroll
        for (int j = 0; j < TN; j += WIDTH_C) {
            int col = n0 + tx + j / 4 * RIGHT + j % 4;
            if (col < N)
                floats_at<WIDTH_C>(C[(size_t)row * ldc + col]) = floats_at<WIDTH_C>(sum[i][j]);
        }
    }
}
