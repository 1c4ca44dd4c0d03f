// honest: a Fortran programmer: row-major C = A B is column-major C' = B' A', leading dimensions and all
struct ColumnMajor {
    const float *p;
    int ld;
    __device__ float operator()(int i, int j) const { return p[i + j * ld]; }
};

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const ColumnMajor bt{B, N}, at{A, K};
    const int i = blockIdx.x * BN + threadIdx.x % BN; // row of C'
    const int j = blockIdx.y * BM + threadIdx.x / BN; // column of C'
    if (i < N && j < M) {
        float s = 0.0f;
        for (int l = 0; l < K; l++)
            s += bt(i, l) * at(l, j);
        C[i + j * N] = s;
    }
}
