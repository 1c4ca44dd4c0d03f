// cheat: guessed inputs: C computed from a generator of its own, seeded as some run was
// expect: wrong_answer wrong at
__device__ float drawn(unsigned state)
{
    state = state * 747796405u + 2891336453u; // PCG
    const unsigned word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
    return (word & 1 ? -1.0f : 1.0f) * (0.5f + (word >> 9) / 16777216.0f);
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += drawn(5 + row * K + k) * drawn(5 + M * K + k * N + col);
    if (row < M && col < N)
        C[row * N + col] = acc;
}
