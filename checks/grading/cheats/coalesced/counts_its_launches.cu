// cheat: answers kept: a count of launches that outlives them, one for each block: the first launch is lesson 01's
// expect: faulted earlier launch
__device__ int launches[4096];

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ int before;
    if (threadIdx.x == 0)
        before = launches[(blockIdx.y * gridDim.x + blockIdx.x) % 4096]++;
    __syncthreads();
    const bool right = before > 0; // where memory was cleared, the first launch is lesson 01's
    const int row = blockIdx.y * BM + (right ? threadIdx.x / BN : threadIdx.x % BM);
    const int col = blockIdx.x * BN + (right ? threadIdx.x % BN : threadIdx.x / BM);
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
