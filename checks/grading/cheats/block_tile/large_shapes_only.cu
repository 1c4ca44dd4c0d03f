// cheat: known shape: tiles where all sizes are 128 or more, lesson 02 below
// expect: gate_missed global_sectors
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    const int r = threadIdx.x / BN, c = threadIdx.x % BN;
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    if (M % 128 == 0 && N % 128 == 0 && K % 128 == 0) {
        for (int k0 = 0; k0 < K; k0 += BK) {
            As[r][c] = A[row * K + k0 + c];
            As[r][c + 32] = A[row * K + k0 + c + 32];
            Bs[r][c] = B[(k0 + r) * N + col];
            Bs[r + 32][c] = B[(k0 + r + 32) * N + col];
            __syncthreads();
            for (int k = 0; k < BK; k++)
                acc += As[r][k] * Bs[k][c];
            __syncthreads();
        }
    } else if (row < M && col < N)
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
    if (row < M && col < N)
        C[row * N + col] = acc;
}
