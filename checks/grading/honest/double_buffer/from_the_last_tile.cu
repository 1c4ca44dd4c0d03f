// honest: walks along K from the end, with unsigned indices and a bit for the buffer in the address
// refused: 'A branch around the fetch' (Pitfalls): the compiler moves the loads behind the products
#include "float4.cuh"

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr unsigned LDA = BM + 4, SIZE = BK * (LDA + BN);
    __shared__ __align__(16) float memory[2 * SIZE];
    const unsigned t = threadIdx.x, lane = t & 31u;
    const unsigned row = t / 64 * WM + (lane / 16 * 2 + lane % 2) * 4, col = t / 32 % 2 * WN + lane / 2 % 8 * 4;
    unsigned offset = 0;
    const float *a = A + (blockIdx.y * BM + t / 2) * K + t % 2 * 4;
    const float *b = B + t / 32 * N + blockIdx.x * BN + t % 32 * 4;
    float4 u, v, w;
    float acc[8][8] = {};
    auto fetch = [&](unsigned k0) {
        u = float4_at(a[k0]);
        v = float4_at(b[k0 * N]);
        w = float4_at(b[(k0 + 4) * N]);
    };
    auto store = [&](unsigned to) {
        float *as = memory + to + t % 2 * 4 * LDA + t / 2;
        as[0] = u.x;
        as[LDA] = u.y;
        as[2 * LDA] = u.z;
        as[3 * LDA] = u.w;
        float4_at(memory[to + BK * LDA + t * 4]) = v;
        float4_at(memory[to + BK * LDA + 512 + t * 4]) = w;
    };
    unsigned k0 = K - BK;
    fetch(k0);
    store(0);
    __syncthreads();
    while (true) {
        if (k0 != 0)
            fetch(k0 - BK);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            float4_at(x[0]) = float4_at((memory + offset + k * LDA)[row]);
            float4_at(x[4]) = float4_at((memory + offset + k * LDA)[row + 16]);
            float4_at(y[0]) = float4_at((memory + offset + BK * LDA + k * BN)[col]);
            float4_at(y[4]) = float4_at((memory + offset + BK * LDA + k * BN)[col + 32]);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += x[i] * y[j];
        }
        if (k0 == 0)
            break;
        offset = SIZE - offset;
        store(offset);
        __syncthreads();
        k0 -= BK;
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            float4_at(C[(blockIdx.y * BM + row + i / 4 * 16 + i % 4) * N + blockIdx.x * BN + col + j * 8]) = float4_at(acc[i][j]);
}
