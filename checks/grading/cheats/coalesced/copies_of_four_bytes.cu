// cheat: hidden loads: lesson 01 with every load of A a cp.async of four bytes into a thread's own place
// expect: gate_missed sectors_
__device__ float read(const float *x, float *mine)
{
    const unsigned to = __cvta_generic_to_shared(mine);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n cp.async.wait_all;" ::"r"(to), "l"(x) : "memory");
    return *(volatile float *)mine;
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float own[BM * BN];
    const int row = blockIdx.y * BM + threadIdx.x % BM; // lesson 01's way
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += read(&A[row * K + k], &own[threadIdx.x]) * B[k * N + col];
    C[row * N + col] = acc;
}
