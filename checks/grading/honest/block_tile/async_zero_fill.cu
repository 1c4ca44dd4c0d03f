// honest: writes cp.async in assembly and lets src-size 0 fill with zeros
static __device__ void copy4(float *to, const float *from, bool there)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = tx; k < BK; k += BN) {
            const bool in = row < M && k0 + k < K;
            copy4(&As[ty][k], in ? &A[row * K + k0 + k] : A, in);
        }
        for (int k = ty; k < BK; k += BM) {
            const bool in = k0 + k < K && col < N;
            copy4(&Bs[k][tx], in ? &B[(k0 + k) * N + col] : B, in);
        }
        asm volatile("cp.async.wait_all;\n" ::: "memory");
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
