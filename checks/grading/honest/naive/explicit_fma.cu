// honest: trusts no compiler: __restrict__, __ldg and __fmaf_rn written out
extern "C" __global__ void gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, const int M,
                                const int N, const int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M) return;
    if (col >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k)
        acc = __fmaf_rn(__ldg(&A[row * K + k]), __ldg(&B[k * N + col]), acc);
    C[row * N + col] = acc;
}
