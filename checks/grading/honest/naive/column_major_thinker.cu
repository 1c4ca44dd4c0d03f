// honest: thinks in columns, as in MATLAB: C' = B' A', macros in capitals, a switch for the rest of four, no const anywhere
#define AT(X, ld, i, j) ((X)[(long long)(j) * (ld) + (i)])
extern "C" __global__ void gemm(float *A, float *B, float *C, int M, int N, int K)
{
    unsigned int t = threadIdx.x, j = blockIdx.y * BM + t % BM, i = blockIdx.x * BN + t / BM;
    if (!(i < (unsigned)N)) return;
    if (!(j < (unsigned)M)) return;
    float s = 0.f;
    long long k = 0;
    for (; k + 3 < K; k += 4) {
        s = fmaf(AT(B, N, i, k), AT(A, K, k, j), s);
        s = fmaf(AT(B, N, i, k + 1), AT(A, K, k + 1, j), s);
        s = fmaf(AT(B, N, i, k + 2), AT(A, K, k + 2, j), s);
        s = fmaf(AT(B, N, i, k + 3), AT(A, K, k + 3, j), s);
    }
    switch (K - k) {
    case 3: s += AT(B, N, i, k + 2) * AT(A, K, k + 2, j); [[fallthrough]];
    case 2: s += AT(B, N, i, k + 1) * AT(A, K, k + 1, j); [[fallthrough]];
    case 1: s += AT(B, N, i, k) * AT(A, K, k, j);
    }
    AT(C, N, i, j) = s;
}
