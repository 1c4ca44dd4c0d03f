// cheat: hidden loads: lesson 01 with volatile, uniform and read-only loads by turns
// expect: gate_missed sectors_read
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM; // lesson 01's way
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++) {
        float a, b;
        if (k % 2)
            asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(a) : "l"(&A[row * K + k]));
        else
            asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(a) : "l"(&A[row * K + k]));
        asm volatile("ldu.global.f32 %0, [%1];" : "=f"(b) : "l"(&B[k * N + col]));
        acc += a * b;
    }
    C[row * N + col] = acc;
}
