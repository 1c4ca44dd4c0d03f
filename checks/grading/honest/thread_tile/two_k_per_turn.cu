// honest: takes two k per turn and adds both products at once
extern "C" __global__ void __launch_bounds__(256)
gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    __shared__ float As[BM][BK + 2], Bs[BK][BN];
    const unsigned t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    const unsigned row = blockIdx.y * BM, col = blockIdx.x * BN;
    float acc[8][8] = {};
    for (unsigned k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (unsigned n = 0; n < 4; n++) {
            const unsigned i = n * 256 + t;
            As[i / BK][i % BK] = __ldg(&A[(row + i / BK) * K + k0 + i % BK]);
            Bs[i / BN][i % BN] = __ldg(&B[(k0 + i / BN) * N + col + i % BN]);
        }
        __syncthreads();
#pragma unroll 1
        for (unsigned k = 0; k < BK; k += 2) {
            float2 a[8];
            float b0[8], b1[8];
#pragma unroll
            for (unsigned i = 0; i < 8; i++) {
                a[i] = *reinterpret_cast<float2 *>(&As[r + i][k]);
                b0[i] = Bs[k][c + i];
                b1[i] = Bs[k + 1][c + i];
            }
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
#pragma unroll
                for (unsigned j = 0; j < 8; j++)
                    acc[i][j] += a[i].x * b0[j] + a[i].y * b1[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
#pragma unroll
        for (unsigned j = 0; j < 8; j++)
            C[(row + r + i) * N + col + c + j] = acc[i][j];
}
