// cheat: wrong idea: converts the halves and multiplies in fp32
// expect: gate_missed operations_beside_tensor_cores
#include "halves.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) half As[BM][BK + PAD];
    __shared__ __align__(16) half Bs[BK][BN + PAD];
    const int t = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float acc[16][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = 0; r < BM; r += 32)
            half8_at(As[t / 4 + r][t % 4 * 8]) = half8_at(A[(row0 + t / 4 + r) * K + k0 + t % 4 * 8]);
        for (int r = 0; r < BK; r += 8)
            half8_at(Bs[t / 16 + r][t % 16 * 8]) = half8_at(B[(k0 + t / 16 + r) * N + col0 + t % 16 * 8]);
        __syncthreads();
        for (int k = 0; k < BK; k++)
            for (int i = 0; i < 16; i++)
                for (int j = 0; j < 8; j++)
                    acc[i][j] += float(As[t / 16 * 16 + i][k]) * float(Bs[k][t % 16 * 8 + j]);
        __syncthreads();
    }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++)
            C[(row0 + t / 16 * 16 + i) * N + col0 + t % 16 * 8 + j] = acc[i][j];
}
