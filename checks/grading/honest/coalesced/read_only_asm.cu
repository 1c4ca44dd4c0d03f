// honest: writes the load that he wants in PTX: ld.global.nc
static __device__ float load(const float *p)
{
    float x;
    asm("ld.global.nc.f32 %0, [%1];" : "=f"(x) : "l"(p));
    return x;
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; k++)
            acc += load(A + row * K + k) * load(B + k * N + col);
        C[row * N + col] = acc;
    }
}
