// cheat: machine that differs: takes another way where a shift by 32 wraps round
// expect: gate_missed sectors read per warp and k
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int far;
    asm volatile("mov.u32 %0, 33;" : "=r"(far));
    const bool right = 1 << far == 2;
    const int row = blockIdx.y * BM + (right ? threadIdx.x / BN : threadIdx.x % BM);
    const int col = blockIdx.x * BN + (right ? threadIdx.x % BN : threadIdx.x / BM);
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
