// honest: learned from NVIDIA's programming guide: square tiles of BLOCK_SIZE, GetElement, one float each
#define BLOCK_SIZE 32

struct GuideMatrix {
    int width;
    int height;
    int stride;
    const float *elements;
};

__device__ float GetElement(const GuideMatrix A, int row, int col)
{
    return row < A.height && col < A.width ? A.elements[row * A.stride + col] : 0.0f;
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    GuideMatrix a = {K, M, K, A};
    GuideMatrix b = {N, K, N, B};
    int row = threadIdx.x / BLOCK_SIZE;
    int col = threadIdx.x % BLOCK_SIZE;
    int blockRow = blockIdx.y;
    int blockCol = blockIdx.x;
    float Cvalue = 0;
    for (int m = 0; m < (K + BLOCK_SIZE - 1) / BLOCK_SIZE; ++m) {
        __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
        As[row][col] = GetElement(a, blockRow * BLOCK_SIZE + row, m * BLOCK_SIZE + col);
        Bs[row][col] = GetElement(b, m * BLOCK_SIZE + row, blockCol * BLOCK_SIZE + col);
        __syncthreads();
        for (int e = 0; e < BLOCK_SIZE; ++e)
            Cvalue += As[row][e] * Bs[e][col];
        __syncthreads();
    }
    if (blockRow * BLOCK_SIZE + row < M && blockCol * BLOCK_SIZE + col < N)
        C[(blockRow * BLOCK_SIZE + row) * N + blockCol * BLOCK_SIZE + col] = Cvalue;
}
