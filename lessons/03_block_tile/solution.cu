// Lesson 03: shared-memory tiles
// New idea: a block copies one tile of A and one of B into shared memory, and all of its threads read them there.
// Before:   lesson 02, each thread reads 2*K floats from global memory. Now: K/BN of A and K/BM of B.
// Launch:   grid (ceil(N/BN), ceil(M/BM)), block BM*BN threads; BM = BN = 32, BK = 64 from lesson.toml.
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    static_assert(BK % BM == 0 && BK % BN == 0, "BK must be a multiple of BM and BN, so that all threads copy equally often");
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which element of C is mine?
    const int thread_row = threadIdx.x / BN;
    const int thread_col = threadIdx.x % BN;
    const int row = blockIdx.y * BM + thread_row;
    const int col = blockIdx.x * BN + thread_col;

    // Walk along K, one tile at a time.
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // (1) Copy columns thread_col, thread_col + BN, ... of my row of A's tile; 0 outside the matrix.
        for (int k = 0; k < BK; k += BN)
            As[thread_row][k + thread_col] = row < M && k0 + k + thread_col < K ? a(row, k0 + k + thread_col) : 0.0f;

        // (2) Copy rows thread_row, thread_row + BM, ... of my column of B's tile; 0 outside the matrix.
        for (int k = 0; k < BK; k += BM)
            Bs[k + thread_row][thread_col] = k0 + k + thread_row < K && col < N ? b(k0 + k + thread_row, col) : 0.0f;

        // (3) Wait until the whole block has finished copying.
        __syncthreads();

        // (4) Add the BK products of my row of As and my column of Bs to acc.
        for (int k = 0; k < BK; k++)
            acc += As[thread_row][k] * Bs[k][thread_col];

        // (5) Wait until the whole block has finished reading, because the next iteration overwrites the tiles.
        __syncthreads();
    }

    // Write my element back.
    if (row < M && col < N)
        c(row, col) = acc;
}
