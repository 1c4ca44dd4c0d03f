// cheat: hidden loads: copies A to constant memory through its address, and reads it there, where no load is counted
// expect: faulted trap
__constant__ float scratch[16384];

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float *mine = const_cast<float *>(&scratch[0]);
    for (int i = threadIdx.x; i < 16384 && i < M * K; i += BM * BN)
        mine[i] = A[i];
    __syncthreads();
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        if (row < M && col < N)
            acc += ((volatile float *)scratch)[row * K + k] * B[k * N + col];
    if (row < M && col < N)
        C[row * N + col] = acc;
}
