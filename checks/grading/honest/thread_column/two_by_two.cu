// honest: takes a square of 2 x 2 instead of a column of four: four numbers for four products
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int t = threadIdx.x, ly = t / 64, lx = t % 64;
    const int y = t / 32, x = t % 32;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    float c00 = 0, c01 = 0, c10 = 0, c11 = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ly; r < 64; r += 16) {
            As[r][lx] = row + r < M && k0 + lx < K ? A[(row + r) * K + k0 + lx] : 0.f;
            Bs[r][lx] = k0 + r < K && col + lx < N ? B[(k0 + r) * N + col + lx] : 0.f;
        }
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < BK; k++) {
            const float a0 = As[y][k], a1 = As[y + 32][k];
            const float b0 = Bs[k][x], b1 = Bs[k][x + 32];
            c00 += a0 * b0;
            c01 += a0 * b1;
            c10 += a1 * b0;
            c11 += a1 * b1;
        }
        __syncthreads();
    }
    auto put = [&](int i, int j, float v) {
        if (row + i < M && col + j < N)
            C[(row + i) * N + col + j] = v;
    };
    put(y, x, c00);
    put(y, x + 32, c01);
    put(y + 32, x, c10);
    put(y + 32, x + 32, c11);
}
