// honest: minds strict aliasing: memcpy of sixteen bytes from pointers that are assumed aligned
#include <cstring>

__device__ __forceinline__ void copy16(void *to, const void *from)
{
    memcpy(__builtin_assume_aligned(to, 16), __builtin_assume_aligned(from, 16), 16);
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ alignas(16) float As[BM][BK];
    __shared__ alignas(16) float Bs[BK][BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    alignas(16) float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        copy16(&As[t / 2][t % 2 * 4], &A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        copy16(&Bs[t / 32][t % 32 * 4], &B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            alignas(16) float a[8][4];
            alignas(16) float b[4][8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                copy16(a[i], &As[r + i][k]);
#pragma unroll
            for (int s = 0; s < 4; s++) {
                copy16(&b[s][0], &Bs[k + s][c]);
                copy16(&b[s][4], &Bs[k + s][c + 4]);
            }
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        acc[i][j] += a[i][s] * b[s][j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            copy16(&C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j], &acc[i][j]);
}
