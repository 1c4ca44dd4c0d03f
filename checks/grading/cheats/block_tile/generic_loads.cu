// cheat: hidden loads: lesson 02 with generic loads
// expect: gate_missed global_sectors
__device__ float read(const float *x)
{
    float value;
    asm volatile("ld.f32 %0, [%1];" : "=f"(value) : "l"(x)); // generic: the compiler cannot know that it is global
    return value;
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += read(&A[row * K + k]) * read(&B[k * N + col]);
    C[row * N + col] = acc;
}
