// cheat: unsupported on purpose: a function that calls itself for the last product
// expect: unsupported, gate_missed, compile_failed call
#include "matrix.cuh"

__device__ __noinline__ float sum(const float *x, int n)
{
    return n ? x[n - 1] + sum(x, n - 1) : 0.0f;
}

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
        for (int r = thread_row; r < BM; r += ROWS)
            As[r][thread_col] = block_row + r < M && k0 + thread_col < K ? a(block_row + r, k0 + thread_col) : 0.0f;

        for (int r = thread_row; r < BK; r += ROWS)
            Bs[r][thread_col] = k0 + r < K && col < N ? b(k0 + r, col) : 0.0f;
        __syncthreads();

        for (int k = 0; k < BK; k++) {
            const float b_k = Bs[k][thread_col];
            for (int i = 0; i < TM; i++)
                acc[i] += As[thread_row * TM + i][k] * b_k;
        }
        __syncthreads();
    }

    // Write my elements back.
    for (int i = 0; i < TM; i++)
        if (row + i < M && col < N)
            c(row + i, col) = acc[i] + 0.0f * sum(A, K % 3);
}
