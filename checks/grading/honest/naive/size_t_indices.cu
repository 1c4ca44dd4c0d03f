// honest: has met matrices above 2^31 elements: every index is a size_t
typedef unsigned long long size64;

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const size64 m = M, n = N, depth = K;
    const size64 row = (size64)blockIdx.y * BM + threadIdx.x / BN;
    const size64 col = (size64)blockIdx.x * BN + threadIdx.x % BN;
    if (row < m && col < n) {
        float acc = 0.0f;
        for (size64 k = 0; k < depth; ++k)
            acc += A[row * depth + k] * B[k * n + col];
        C[row * n + col] = acc;
    }
}
