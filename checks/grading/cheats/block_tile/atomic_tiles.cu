// cheat: race: the tiles are filled by atomicExch, as if that were a barrier
// expect: faulted race
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    const int r = threadIdx.x / BN, c = threadIdx.x % BN;
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int k = 0; k < BK; k += BN)
            atomicExch(&As[r][k + c], row < M && k0 + k + c < K ? A[row * K + k0 + k + c] : 0.0f);
        for (int k = 0; k < BK; k += BM)
            atomicExch(&Bs[k + r][c], k0 + k + r < K && col < N ? B[(k0 + k + r) * N + col] : 0.0f);
        
        for (int k = 0; k < BK; k++)
            acc += atomicAdd(&As[r][k], 0.0f) * atomicAdd(&Bs[k][c], 0.0f);
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
