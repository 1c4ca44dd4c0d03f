// cheat: wrong idea: lesson 02's kernel with two decoy barriers and a shared array that nobody reads
// expect: gate_missed global_sectors
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float decoy[BM][BK];
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += row < M && col < N ? A[row * K + k] * B[k * N + col] : 0.0f;
    decoy[threadIdx.x / BN][threadIdx.x % BN] = acc;
    __syncthreads();
    if (row < M && col < N)
        C[row * N + col] = acc;
    __syncthreads();
}
