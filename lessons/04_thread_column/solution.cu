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
        // (1) Copy my share of A: column thread_col, rows thread_row, thread_row + ROWS, ...; 0 outside the matrix.
        for (int r = thread_row; r < BM; r += ROWS)
            As[r][thread_col] = block_row + r < M && k0 + thread_col < K ? a(block_row + r, k0 + thread_col) : 0.0f;

        // (2) Copy my share of B: column thread_col, rows thread_row, thread_row + ROWS, ...; 0 outside the matrix.
        for (int r = thread_row; r < BK; r += ROWS)
            Bs[r][thread_col] = k0 + r < K && col < N ? b(k0 + r, col) : 0.0f;
        __syncthreads();

        for (int k = 0; k < BK; k++) {
            // (3) One float of Bs for all my sums, and one of As for each.
            const float b_k = Bs[k][thread_col];
            for (int i = 0; i < TM; i++)
                acc[i] += As[thread_row * TM + i][k] * b_k;
        }
        __syncthreads();
    }

    // Write my elements back.
    // (4) Store those that are inside the matrix.
    for (int i = 0; i < TM; i++)
        if (row + i < M && col < N)
            c(row + i, col) = acc[i];
}
