// cheat: hidden loads: lesson 01 with every load an atomic addition of zero; only the stores are in order
// expect: faulted input_overwritten
__device__ float read(const float *x)
{
    return atomicAdd(const_cast<float *>(x), -0.0f);
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float tile[BM][BN + 1];
    const int row = blockIdx.y * BM + threadIdx.x % BM; // lesson 01's way
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    float acc = 0.0f;
    if (row < M && col < N)
        for (int k = 0; k < K; k++)
            acc += read(&A[row * K + k]) * read(&B[k * N + col]);
    tile[threadIdx.x % BM][threadIdx.x / BM] = acc;
    __syncthreads();
    const int store_row = blockIdx.y * BM + threadIdx.x / BN, store_col = blockIdx.x * BN + threadIdx.x % BN;
    if (store_row < M && store_col < N)
        C[store_row * N + store_col] = tile[threadIdx.x / BN][threadIdx.x % BN];
}
