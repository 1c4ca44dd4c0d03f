// cheat: machine that differs: takes another way where small numbers are flushed to zero
// expect: gate_missed sectors read per warp and k
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    float tiny;
    asm volatile("mov.f32 %0, 0f00000001;" : "=f"(tiny));
    const bool right = tiny * 0.5f + tiny == 0.0f;
    const int row = blockIdx.y * BM + (right ? threadIdx.x / BN : threadIdx.x % BM);
    const int col = blockIdx.x * BN + (right ? threadIdx.x % BN : threadIdx.x / BM);
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
