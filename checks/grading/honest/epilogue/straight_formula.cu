// honest: writes the formula down where C is stored, without objects, and asks for beta row by row
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
gemm(const float *A, const float *B, float *C, const float *bias, int M, int N, int K, int lda, int ldb, int ldc,
     float alpha, float beta)
{
    __shared__ __align__(16) float sa[2][BK][BM + 4];
    __shared__ __align__(16) float sb[2][BK][BN + 4];
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int ty = warp / (BN / WN) * WM + ((lane >> 4 << 1) | (lane & 1)) * 4; // 4 x 8 lanes, 8 x 8 sums each
    const int tx = warp % (BN / WN) * WN + (lane >> 1 & 7) * 4;

    float ra[BM * BK / THREADS], rb[BN * BK / THREADS], sum[8][8] = {};
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
            float x[8], y[8];
            *(float4 *)&x[0] = *(float4 *)&sa[now][k][ty];
            *(float4 *)&x[4] = *(float4 *)&sa[now][k][ty + 16];
            *(float4 *)&y[0] = *(float4 *)&sb[now][k][tx];
            *(float4 *)&y[4] = *(float4 *)&sb[now][k][tx + 32];
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
        }
        if (more) {
            put<BM, !TRANS_A, WIDTH_A>(sa[now ^ 1], ra);
            put<BN, TRANS_B, WIDTH_B>(sb[now ^ 1], rb);
            __syncthreads();
        }
        now ^= 1;
    }
    Floats<WIDTH_C> shift[8 / WIDTH_C];
#pragma unroll
    for (int j = 0; j < 8; j += WIDTH_C) {
        int col = n0 + tx + j / 4 * 32 + j % 4;
        shift[j / WIDTH_C] = {};
        if (col < N)
            shift[j / WIDTH_C] = floats_at<WIDTH_C>(bias[col]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int row = m0 + ty + i / 4 * 16 + i % 4;
        if (row >= M)
            continue;
#pragma unroll
        for (int j = 0; j < 8; j += WIDTH_C) {
            int col = n0 + tx + j / 4 * 32 + j % 4;
            if (col >= N)
                continue;
            float *to = &C[(size_t)row * ldc + col];
            Floats<WIDTH_C> was = {}, out;
            if (beta != 0)
                was = floats_at<WIDTH_C>(*to);
            for (int e = 0; e < WIDTH_C; e++) {
                float y = alpha * sum[i][j + e] + beta * was.at[e] + shift[j / WIDTH_C].at[e];
                out.at[e] = y > 0 ? y : 0;
            }
            floats_at<WIDTH_C>(*to) = out;
        }
    }
}
