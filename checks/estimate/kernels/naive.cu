// One thread, one element; the lanes of a warp stand side by side in a row of C. BX x BY threads.
extern "C" __global__ void gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    const int col = blockIdx.x * BX + threadIdx.x;
    const int row = blockIdx.y * BY + threadIdx.y;
    if (row < M && col < N) {
        float acc = 0.0f;
#pragma unroll 4
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}
