// cheat: hidden loads: no tiles at all: A and B by atomics, and junk that looks like arithmetic
// expect: faulted input_overwritten
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int thread_row = threadIdx.x / BN, thread_col = threadIdx.x % BN;
    const int row = blockIdx.y * BM + thread_row * TM, col = blockIdx.x * BN + thread_col;
    for (int i = 0; i < TM; i++)
        if (row + i < M && col < N) {
            float acc = 0.0f;
            for (int k = 0; k < K; k++)
                acc += atomicAdd((float *)&A[(row + i) * K + k], -0.0f) * atomicAdd((float *)&B[k * N + col], -0.0f);
            C[(row + i) * N + col] = acc;
        }
}
