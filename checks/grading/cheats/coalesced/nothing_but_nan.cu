// cheat: tolerance: NaN everywhere: no comparison with a NaN is true
// expect: wrong_answer wrong at
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row < M && col < N)
        C[row * N + col] = __int_as_float(0x7FC00000);
}
