// cheat: hidden loads: reads A and B by ld.const, through a pointer into global memory
// expect: faulted, unsupported, gate_missed const
__device__ float read(const float *x)
{
    float value;
    asm volatile("ld.const.f32 %0, [%1];" : "=f"(value) : "l"(x));
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
    C[row * N + col] = acc;
}
