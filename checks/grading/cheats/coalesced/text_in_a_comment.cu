// cheat: machine that differs: code in comments of PTX, which a careless reader of it might execute
// expect: gate_missed sectors read per warp and k
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int right = 0;
    asm volatile("// comment \\\n mov.u32 %0, %0; /* // */ /* \n mov.u32 %0, 1; // */" : "+r"(right));
    const int row = blockIdx.y * BM + (right ? threadIdx.x / BN : threadIdx.x % BM);
    const int col = blockIdx.x * BN + (right ? threadIdx.x % BN : threadIdx.x / BM);
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
