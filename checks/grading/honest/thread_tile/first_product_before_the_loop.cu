// honest: needs no zeros: k = 0 of each tile is a loop of its own, into sums of the tile
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    float acc[8][8];
    const auto load = [&](int k0) {
        for (int n = 0; n < 4; n++) {
            const int i = n * 256 + t;
            As[i / BK][i % BK] = A[(row + i / BK) * K + k0 + i % BK];
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + col + i % BN];
        }
    };
    load(0);
    __syncthreads();
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            acc[i][j] = As[r + i][0] * Bs[0][c + j];
    int k = 1;
    for (int k0 = 0;;) {
#pragma unroll 1
        for (; k < BK; k++) {
            float b[8];
            for (int j = 0; j < 8; j++)
                b[j] = Bs[k][c + j];
            for (int i = 0; i < 8; i++) {
                const float a = As[r + i][k];
                for (int j = 0; j < 8; j++)
                    acc[i][j] += a * b[j];
            }
        }
        k0 += BK;
        if (k0 >= K)
            break;
        __syncthreads();
        load(k0);
        __syncthreads();
        k = 0;
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            C[(row + r + i) * N + col + c + j] = acc[i][j];
}
