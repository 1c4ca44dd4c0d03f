// honest: a Fortran programmer: tiles with the first index fastest, one-based loops, J the column
#define AS(I, J) as[((J)-1) * 65 + (I)-1]
#define BS(I, J) bs[((J)-1) * 65 + (I)-1]

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float as[64 * 65], bs[64 * 65];
    const int LX = threadIdx.x % 64 + 1, LY = threadIdx.x / 64 + 1;
    const int I0 = blockIdx.y * 64, J0 = blockIdx.x * 64;
    int I, J, L, L0;
    float S1 = 0.0f, S2 = 0.0f, S3 = 0.0f, S4 = 0.0f, T;
    J = LX;
    for (L0 = 0; L0 <= K - 1; L0 += 64) {
        for (I = LY; I <= 64; I += 16) {
            AS(I, LX) = I0 + I <= M && L0 + LX <= K ? A[(I0 + I - 1) * K + L0 + LX - 1] : 0.0f;
            BS(I, LX) = L0 + I <= K && J0 + LX <= N ? B[(L0 + I - 1) * N + J0 + LX - 1] : 0.0f;
        }
        __syncthreads();
        for (L = 1; L <= 64; ++L) {
            T = BS(L, J);
            S1 = S1 + AS(LY, L) * T;
            S2 = S2 + AS(LY + 16, L) * T;
            S3 = S3 + AS(LY + 32, L) * T;
            S4 = S4 + AS(LY + 48, L) * T;
        }
        __syncthreads();
    }
    if (J0 + J <= N) {
        if (I0 + LY <= M) C[(I0 + LY - 1) * N + J0 + J - 1] = S1;
        if (I0 + LY + 16 <= M) C[(I0 + LY + 15) * N + J0 + J - 1] = S2;
        if (I0 + LY + 32 <= M) C[(I0 + LY + 31) * N + J0 + J - 1] = S3;
        if (I0 + LY + 48 <= M) C[(I0 + LY + 47) * N + J0 + J - 1] = S4;
    }
}
