// honest: who has one program for both warps, which asks at each fetch whose it is, __syncthreads, and room of its own for the exchange
#include "float4.cuh"

#define S (8 * TM)
#define PITCH (S + 4)
#define PITCH_B (S | 16)

extern "C" __global__ void __launch_bounds__(64)
gemm(cudaTextureObject_t tex4_A, cudaTextureObject_t tex4_B, const float *, const float *, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float sh[2][BK][PITCH], shb[2][BK][PITCH_B];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int row0 = blockIdx.y * S, col0 = blockIdx.x * S;
    const int W = TM % 4 ? 2 : 4;
    const int ly = lane / 2 % 8, lx = lane % 2 + lane / 16 * 2 + warp * 4;
    // of A: two lanes have eight k of a row; of B: four lanes have sixteen columns of a row
    int at = warp ? lane / 4 * (N / 4) + col0 / 4 + lane % 4 : (row0 + lane / 2) * (K / 4) + lane % 2;
    float4 v[BK / 8][TM / 2];
    float c[TM][TM] = {};

    auto get = [&](int k0) {
        if (warp) {
            for (int n = 0; n < BK / 8 * (TM / 2); n++)
                v[n / (TM / 2)][n % (TM / 2)] =
                    tex1Dfetch<float4>(tex4_B, at + n % (TM / 2) * 4 + (k0 + n / (TM / 2) * 8) * (N / 4));
        } else {
            for (int n = 0; n < BK / 8 * (TM / 2); n++)
                v[n / (TM / 2)][n % (TM / 2)] =
                    tex1Dfetch<float4>(tex4_A, at + n % (TM / 2) * 4 * K + (k0 + n / (TM / 2) * 8) / 4);
        }
    };
    auto put = [&](int b) {
        for (int h = 0; h < BK / 8; h++)
            for (int i = 0; i < TM / 2; i++)
                if (warp) {
                    float4_at(shb[b][h * 8 + lane / 4][lane % 4 * 4 + i * 16]) = v[h][i];
                } else {
                    float *to = &sh[b][h * 8 + lane % 2 * 4][lane / 2 + i * 16];
                    to[0] = v[h][i].x, to[PITCH] = v[h][i].y, to[2 * PITCH] = v[h][i].z, to[3 * PITCH] = v[h][i].w;
                }
    };
    get(0);
    put(0);
    __syncthreads();
    int b = 0;
    for (int k0 = 0; k0 < K; k0 += BK, b ^= 1) {
        get(k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[TM], y[TM];
            for (int j = 0; j < TM; j += W)
                if (W == 4) {
                    *(float4 *)&x[j] = *(float4 *)&sh[b][k][ly * 4 + j * 8];
                    *(float4 *)&y[j] = *(float4 *)&shb[b][k][lx * 4 + j * 8];
                } else {
                    *(float2 *)&x[j] = *(float2 *)&sh[b][k][ly * 2 + j * 8];
                    *(float2 *)&y[j] = *(float2 *)&shb[b][k][lx * 2 + j * 8];
                }
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TM; j++)
                    c[i][j] += x[i] * y[j];
        }
        put(b ^ 1);
        __syncthreads();
    }
    // W rows of each lane at a time, then whole rows
    __shared__ __align__(16) float ex[8 * (TM % 4 ? 2 : 4) * (S + 8)];
    const int P = S + 2 * W;
    for (int i = 0; i < TM; i += W) {
        __syncthreads();
        for (int r = 0; r < W; r++)
            for (int j = 0; j < TM; j += W)
                for (int e = 0; e < W; e += 2)
                    *(float2 *)&ex[(r * 8 + ly) * P + lx * W + j * 8 + e] = make_float2(c[i + r][j + e], c[i + r][j + e + 1]);
        __syncthreads();
        for (int n = threadIdx.x; n < 8 * W * S / 4; n += 64) {
            int line = n / (S / 4), q = n % (S / 4) * 4;
            float4_at(C[(row0 + i * 8 + line % 8 * W + line / 8) * N + col0 + q]) = float4_at(ex[line * P + q]);
        }
    }
}
