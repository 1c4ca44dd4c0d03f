// honest: a C programmer: two pairs of pointers that change places after every tile
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128, 4)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float buffer[2][BK * (BM + 4 + BN)];
    const int t = threadIdx.x, lane = t % 32;
    const int row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    float *reading = buffer[0], *writing = buffer[1];
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float acc[8][8] = {};
    float4 u = float4_at(*a), v = float4_at(*b), w = float4_at(b[4 * N]);
    const auto put = [&](float *to) {
        float *as = to + t % 2 * 4 * (BM + 4) + t / 2;
        as[0] = u.x, as[BM + 4] = u.y, as[2 * (BM + 4)] = u.z, as[3 * (BM + 4)] = u.w;
        float4_at(to[BK * (BM + 4) + t * 4]) = v;
        float4_at(to[BK * (BM + 4) + t * 4 + 512]) = w;
    };
    put(reading);
    __syncthreads();
    for (int left = K; left > 0; left -= BK) {
        if (left > BK) {
            a += BK;
            b += BK * N;
            u = float4_at(*a);
            v = float4_at(*b);
            w = float4_at(b[4 * N]);
        }
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at((reading + k * (BM + 4))[row]);
            float4_at(x[4]) = float4_at((reading + k * (BM + 4))[row + 16]);
            float4_at(y[0]) = float4_at((reading + BK * (BM + 4) + k * BN)[col]);
            float4_at(y[4]) = float4_at((reading + BK * (BM + 4) + k * BN)[col + 32]);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        if (left > BK) {
            put(writing);
            __syncthreads();
        }
        float *const swap = reading;
        reading = writing;
        writing = swap;
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
