// honest: learned from cuBLAS's samples: an index macro, everything at the top, goto for the way out
#define IDX2R(i, j, ld) (((i) * (ld)) + (j))

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int i = threadIdx.x % BM + blockIdx.y * BM;
    int j = threadIdx.x / BM + blockIdx.x * BN;
    int k = 0;
    float cij = 0.0f;
    if (i >= M || j >= N)
        goto done;
again:
    cij += A[IDX2R(i, k, K)] * B[IDX2R(k, j, N)];
    if (++k < K)
        goto again;
    C[IDX2R(i, j, N)] = cij;
done:
    return;
}
