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

    // (1) My float4 of each tile: a row of a_tile has BK / 4 of them, a row of b_tile BN / 4.
    const int load_row_a = threadIdx.x / (BK / 4);
    const int load_col_a = threadIdx.x % (BK / 4) * 4;
    const int load_row_b = threadIdx.x / (BN / 4);
    const int load_col_b = threadIdx.x % (BN / 4) * 4;

    // Walk along K, one tile at a time.
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const Matrix<const float> a_tile = a.tile(block_row, k0, BM, BK);
        const Matrix<const float> b_tile = b.tile(k0, block_col, BK, BN);
        // (2) Copy the tiles: one float4 in each iteration.
        for (int r = 0; r < BM; r += A_ROWS)
            float4_at(As[load_row_a + r][load_col_a]) = float4_at(a_tile(load_row_a + r, load_col_a));
        for (int r = 0; r < BK; r += B_ROWS)
            float4_at(Bs[load_row_b + r][load_col_b]) = float4_at(b_tile(load_row_b + r, load_col_b));
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float a_frag[TM][4];
            float b_frag[TN];
            // (3) Read four k of each of my rows of As at once.
            for (int i = 0; i < TM; i++)
                float4_at(a_frag[i][0]) = float4_at(As[thread_row + i][k]);

            for (int step = 0; step < 4; step++) {
                // (4) Read my TN elements of row k + step of Bs.
                for (int j = 0; j < TN; j += 4)
                    float4_at(b_frag[j]) = float4_at(Bs[k + step][thread_col + j]);

                for (int i = 0; i < TM; i++)
                    for (int j = 0; j < TN; j++)
                        acc[i][j] += a_frag[i][step] * b_frag[j];
            }
        }
        __syncthreads();
    }

    // Write my elements back.
    // (5) Store my tile, four columns at a time.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            float4_at(c(block_row + thread_row + i, block_col + thread_col + j)) = float4_at(acc[i][j]);
}
