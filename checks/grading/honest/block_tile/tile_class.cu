// honest: a C++ programmer: a class template for a tile that loads itself
template <int Rows, int Cols, int Threads>
class Tile {
public:
    __device__ void load(const float *from, int rows, int cols, int ld, int row0, int col0)
    {
        static_assert(Rows * Cols % Threads == 0, "whole rounds");
#pragma unroll
        for (int i = 0; i < Rows * Cols / Threads; ++i) {
            const int n = i * Threads + threadIdx.x;
            const int r = n / Cols, c = n % Cols;
            data_[r][c] = (row0 + r < rows && col0 + c < cols) ? from[(row0 + r) * ld + col0 + c] : 0.0f;
        }
    }
    __device__ const float *operator[](int r) const { return data_[r]; }

private:
    float data_[Rows][Cols];
};

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ Tile<BM, BK, BM * BN> a;
    __shared__ Tile<BK, BN, BM * BN> b;
    const int i = threadIdx.x / BN, j = threadIdx.x % BN;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        a.load(A, M, K, K, blockIdx.y * BM, k0);
        b.load(B, K, N, N, k0, blockIdx.x * BN);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k)
            sum += a[i][k] * b[k][j];
        __syncthreads();
    }
    const int row = blockIdx.y * BM + i, col = blockIdx.x * BN + j;
    if (row < M && col < N)
        C[row * N + col] = sum;
}
