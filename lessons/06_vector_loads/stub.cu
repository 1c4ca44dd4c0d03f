// Lesson 06: vector loads
// New idea: every access to global and shared memory moves four floats (128 bits).
// Before:   lesson 05, one instruction for each float. Now: one for four, and the threads that copy are re-mapped.
// Launch:   grid (N/BN, M/BM), block (BM/TM)*(BN/TN) threads; BM = BN = 128, BK = TM = TN = 8 from lesson.toml.
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    constexpr int A_ROWS = THREADS / (BK / 4); // rows of a_tile that the block copies in one iteration
    constexpr int B_ROWS = THREADS / (BN / 4); // rows of b_tile
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "every thread copies the same number of float4");
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which elements of C are mine? A TM x TN tile that starts at (thread_row, thread_col) of the block tile.
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM;
    const int thread_col = threadIdx.x % (BN / TN) * TN;

    // TODO(1): which float4 of a_tile do I copy, and which of b_tile? Declare load_row_a, load_col_a, load_row_b and
    // load_col_b: the row and column of the first of its four floats.

    // Walk along K, one tile at a time.
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const Matrix<const float> a_tile = a.tile(block_row, k0, BM, BK);
        const Matrix<const float> b_tile = b.tile(k0, block_col, BK, BN);
        // TODO(2): how do both tiles get to As and Bs, four floats at a time? How many iterations does each need?
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float a_frag[TM][4];
            float b_frag[TN];
            // TODO(3): which floats of As do I need for these four k? Which of them does one float4 hold?

            for (int step = 0; step < 4; step++) {
                // TODO(4): which floats of Bs do I need in this step?

                for (int i = 0; i < TM; i++)
                    for (int j = 0; j < TN; j++)
                        acc[i][j] += a_frag[i][step] * b_frag[j];
            }
        }
        __syncthreads();
    }

    // Write my elements back.
    // TODO(5): where does each float4 of acc go in C?
}
