// cheat: machine that differs: lesson 01 where arrays do not lie as the simulator lays them
// expect: faulted machine_dependent
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const bool right = (unsigned long long)A < 1ull << 32;
    const int row = blockIdx.y * BM + (right ? threadIdx.x / BN : threadIdx.x % BM);
    const int col = blockIdx.x * BN + (right ? threadIdx.x % BN : threadIdx.x / BM);
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
