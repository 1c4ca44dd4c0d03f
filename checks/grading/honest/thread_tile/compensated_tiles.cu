// honest: a numerical analyst: each tile's sums are added to the totals by Kahan's rule
extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    const int t = threadIdx.x, ty = t / 16 * 8, tx = t % 16 * 8;
    float total[8][8] = {}, lost[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int n = 0; n < 4; n++) {
            const int i = n * 256 + t;
            As[i / BK][i % BK] = A[(blockIdx.y * BM + i / BK) * K + k0 + i % BK];
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + blockIdx.x * BN + i % BN];
        }
        __syncthreads();
        float part[8][8] = {};
#pragma unroll 2
        for (int k = 0; k < BK; k++) {
            float a[8], b[8];
            for (int i = 0; i < 8; i++)
                a[i] = As[ty + i][k];
            for (int j = 0; j < 8; j++)
                b[j] = Bs[k][tx + j];
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    part[i][j] += a[i] * b[j];
        }
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) {
                const float y = part[i][j] - lost[i][j];
                const float sum = total[i][j] + y;
                lost[i][j] = (sum - total[i][j]) - y;
                total[i][j] = sum;
            }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            C[(blockIdx.y * BM + ty + i) * N + blockIdx.x * BN + tx + j] = total[i][j];
}
