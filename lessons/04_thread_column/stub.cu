// Lesson 04: a column of results for each thread
// New idea: one thread computes TM elements that stand below each other, with one number of Bs for all of them.
// Before:   lesson 03, two shared floats for one multiply-add. Now: TM + 1 for TM.
// Launch:   grid (ceil(N/BN), ceil(M/BM)), block (BM/TM)*BN threads; BM = BN = BK = 64, TM = 4 from lesson.toml.
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int ROWS = BM / TM; // rows of threads: as many rows of a tile are copied in one round
    static_assert(BK == BN, "a row of As is as long as a row of threads");
    static_assert(BM % TM == 0 && BK % ROWS == 0, "the tiles must be whole rounds of copying");
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Where do I stand among the threads? ROWS rows of BN threads.
    const int thread_row = threadIdx.x / BN;
    const int thread_col = threadIdx.x % BN;

    // Which elements of C are mine? TM of column col: rows row, row + 1, ..., row + TM - 1.
    const int block_row = blockIdx.y * BM;
    const int row = block_row + thread_row * TM;
    const int col = blockIdx.x * BN + thread_col;

    // Walk along K, one tile at a time.
    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // TODO(1): copy A[block_row + r, k0 + thread_col] into As, r = thread_row, thread_row + ROWS, ... below BM;
        // 0 outside the matrix.

        // TODO(2): copy B[k0 + r, col] into Bs, r = thread_row, thread_row + ROWS, ... below BK;
        // 0 outside the matrix.
        __syncthreads();

        for (int k = 0; k < BK; k++) {
            // TODO(3): read my number of row k of Bs once; add its product with each of my TM numbers of As to acc.
        }
        __syncthreads();
    }

    // Write my elements back.
    // TODO(4): store the elements of acc that are inside the matrix.
}
