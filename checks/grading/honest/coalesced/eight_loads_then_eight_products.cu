// honest: unrolls with #pragma unroll everywhere and keeps the loads apart from the products
extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    int k = 0;
#pragma unroll 1
    for (; k + 8 <= K; k += 8) {
        float a[8], b[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            a[i] = __ldg(A + row * K + k + i);
#pragma unroll
        for (int i = 0; i < 8; i++)
            b[i] = __ldg(B + (k + i) * N + col);
#pragma unroll
        for (int i = 0; i < 8; i++)
            acc = __fmaf_rn(a[i], b[i], acc);
    }
#pragma unroll 1
    for (; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
