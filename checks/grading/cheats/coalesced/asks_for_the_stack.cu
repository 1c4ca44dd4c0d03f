// cheat: machine that differs: lesson 01 where local memory has addresses
// expect: gate_missed sectors read per warp and k
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int local;
    unsigned long long x;
    asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(x) : "l"(&local));
    const bool right = __syncthreads_and(x > 1 << 30);
    const int row = blockIdx.y * BM + (right ? threadIdx.x / BN : threadIdx.x % BM);
    const int col = blockIdx.x * BN + (right ? threadIdx.x % BN : threadIdx.x / BM);
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
