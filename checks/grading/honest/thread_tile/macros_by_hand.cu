// honest: unrolls with macros: sixty-four named sums
#define ROW(i, F) F(i, 0) F(i, 1) F(i, 2) F(i, 3) F(i, 4) F(i, 5) F(i, 6) F(i, 7)
#define ALL(F) ROW(0, F) ROW(1, F) ROW(2, F) ROW(3, F) ROW(4, F) ROW(5, F) ROW(6, F) ROW(7, F)
#define DECLARE(i, j) float c##i##j = 0.0f;
#define MULTIPLY(i, j) c##i##j += a##i * b##j;
#define STORE(i, j) C[(row + i) * N + col + j] = c##i##j;
#define READ(i) const float a##i = As[r + i][k], b##i = Bs[k][c + i];

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    const int row = blockIdx.y * BM + r, col = blockIdx.x * BN + c;
    ALL(DECLARE)
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = 0; i < 4; i++) {
            As[t / 8 + 32 * i][t % 8] = A[(blockIdx.y * BM + t / 8 + 32 * i) * K + k0 + t % 8];
            Bs[t / 128 + 2 * i][t % 128] = B[(k0 + t / 128 + 2 * i) * N + blockIdx.x * BN + t % 128];
        }
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < BK; k++) {
            READ(0) READ(1) READ(2) READ(3) READ(4) READ(5) READ(6) READ(7)
            ALL(MULTIPLY)
        }
        __syncthreads();
    }
    ALL(STORE)
}
