// Lesson 04: a column of results for each thread
// New idea: one thread computes TM elements of a column of C and reads one float of Bs for all of them.
// Before:   lesson 03, two shared floats per multiply-add. Now: TM + 1 for TM.
// Launch:   grid (ceil(N/BN), ceil(M/BM)), block (BM/TM)*BN threads; BM = BN = BK = 64, TM = 4 from lesson.toml.
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int ROWS = BM / TM; // rows of threads; the block copies as many rows of a tile in one iteration
    static_assert(BK == BN, "a row of As is as long as a row of threads");
    static_assert(BM % TM == 0 && BK % ROWS == 0, "every thread copies the same number of elements");
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Where am I in the block? It has ROWS rows of BN threads.
    const int thread_row = threadIdx.x / BN;
    const int thread_col = threadIdx.x % BN;

    // Which elements of C are mine? TM of column col: rows row, row + 1, ..., row + TM - 1.
    const int block_row = blockIdx.y * BM;
    const int row = block_row + thread_row * TM;
    const int col = blockIdx.x * BN + thread_col;

    // Walk along K, one tile at a time.
    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // TODO(1): which elements of A do I copy, and where do they go in As? What do I store where the tile is
        // outside the matrix?

        // TODO(2): the same for B and Bs. Which row and which column of B?
        __syncthreads();

        for (int k = 0; k < BK; k++) {
            // TODO(3): which float of Bs do all my results share for this k? Which float of As goes with each?
        }
        __syncthreads();
    }

    // Write my elements back.
    // TODO(4): which of my TM results are inside C, and where do they go?
}
