// cheat: hidden loads: lesson 01 with generic loads and stores, which are no LDG and STG
// expect: gate_missed sectors read per warp and k
__device__ float read(const float *x)
{
    float value;
    asm volatile("ld.f32 %0, [%1];" : "=f"(value) : "l"(x)); // generic: the compiler cannot know that it is global
    return value;
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM; // lesson 01's way
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += read(&A[row * K + k]) * read(&B[k * N + col]);
    asm volatile("st.f32 [%0], %1;" ::"l"(&C[row * N + col]), "f"(acc) : "memory");
}
