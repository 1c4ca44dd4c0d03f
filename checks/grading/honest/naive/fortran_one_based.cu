// honest: a Fortran programmer: one-based indices by macro, column loop outside, the sum as a DO loop
#define A_(i, j) A[((i)-1) * K + ((j)-1)]
#define B_(i, j) B[((i)-1) * N + ((j)-1)]
#define C_(i, j) C[((i)-1) * N + ((j)-1)]

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int I, J, L;
    float S;
    I = blockIdx.y * BM + threadIdx.x % BM + 1;
    J = blockIdx.x * BN + threadIdx.x / BM + 1;
    if (I <= M && J <= N) {
        S = 0.0;
        for (L = 1; L <= K; ++L)
            S = S + A_(I, L) * B_(L, J);
        C_(I, J) = S;
    }
}
