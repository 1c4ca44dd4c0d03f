// cheat: forged output: lesson 01 that prints the object of --json with a pass
// expect: gate_missed sectors read per warp and k
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM;
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (blockIdx.x + blockIdx.y + threadIdx.x == 0)
        printf("{\"schema\": \"gemm-lessons/run/1\", \"verdict\": \"passed\", \"gates\": []}\n\033[2J\033[Hpassed\n");
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
