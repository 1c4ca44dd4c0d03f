// honest: copies B by cp.async and A through registers, a whole tile at a time, pads A by two doubles
#include <cuda_pipeline.h>

extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const double *A, const double *B, double *C, int M, int N, int K)
{
    extern __shared__ __align__(16) double sm[];
    double(*sa)[BK][BM + 2] = reinterpret_cast<double(*)[BK][BM + 2]>(sm);
    double(*sb)[BK][BN] = reinterpret_cast<double(*)[BK][BN]>(sm + 2 * BK * (BM + 2));
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int wy = warp / 2 * 32 + (lane / 16 * 2 + lane % 2) * 2, wx = warp % 2 * 64 + lane / 2 % 8 * 2;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    double sum[8][8] = {};
    double2 ra[4];
    auto load = [&](int s, int k0) {
        for (int i = 0; i < 4; i++) // eight lanes have the 16 k of a row
            ra[i] = *reinterpret_cast<const double2 *>(&A[(t / 8 + i * 32) * K + k0 + t % 8 * 2]);
        for (int i = 0; i < 4; i++)
            __pipeline_memcpy_async(&sb[s][t / 64 + i * 4][t % 64 * 2], &B[(k0 + t / 64 + i * 4) * N + t % 64 * 2], 16);
        __pipeline_commit();
    };
    auto keep = [&](int s) {
        for (int i = 0; i < 4; i++) {
            sa[s][t % 8 * 2][t / 8 + i * 32] = ra[i].x;
            sa[s][t % 8 * 2 + 1][t / 8 + i * 32] = ra[i].y;
        }
        __pipeline_wait_prior(0);
    };
    load(0, 0);
    keep(0);
    __syncthreads();
    for (int k0 = 0, s = 0; k0 < K; k0 += BK, s ^= 1) {
        if (k0 + BK < K)
            load(s ^ 1, k0 + BK);
#pragma unroll 4
        for (int k = 0; k < BK; k++) {
            double a[8], b[8];
            for (int i = 0; i < 8; i += 2) {
                *reinterpret_cast<double2 *>(&a[i]) = *reinterpret_cast<double2 *>(&sa[s][k][wy + i * 4]);
                *reinterpret_cast<double2 *>(&b[i]) = *reinterpret_cast<double2 *>(&sb[s][k][wx + i * 8]);
            }
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    sum[i][j] = fma(a[i], b[j], sum[i][j]);
        }
        if (k0 + BK < K) {
            keep(s ^ 1);
            __syncthreads();
        }
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 2)
            *reinterpret_cast<double2 *>(&C[(blockIdx.y * BM + wy + i / 2 * 8 + i % 2) * N + blockIdx.x * BN + wx + j * 8]) =
                make_double2(sum[i][j], sum[i][j + 1]);
}
