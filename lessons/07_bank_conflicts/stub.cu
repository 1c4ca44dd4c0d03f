// Lesson 07: bank conflicts
// New idea: lay out shared memory so that no two lanes of a request need different words of one bank.
// Before:   lesson 06, the lanes read every second float4. Now: As is transposed, a thread tile is split into 4 x 4.
// Launch:   grid (N/BN, M/BM), block (BM/TM)*(BN/TN) threads; BM = BN = 128, BK = TM = TN = 8 from lesson.toml.
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    constexpr int A_ROWS = THREADS / (BK / 4); // rows of a_tile that the block copies in one pass
    constexpr int B_ROWS = THREADS / (BN / 4); // rows of b_tile
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the tiles must be whole passes of copying");
    __shared__ __align__(16) float As[BK][BM + 4]; // transposed, with 4 floats of padding per row
    __shared__ __align__(16) float Bs[BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which elements of C are mine? TM x TN in pieces of 4 x 4, ROW_STEP rows and COL_STEP columns apart.
    constexpr int ROW_STEP = BM / (TM / 4);
    constexpr int COL_STEP = BN / (TN / 4);
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * 4;
    const int thread_col = threadIdx.x % (BN / TN) * 4;

    // Which float4 of the tiles do I copy? A row of a_tile has BK / 4 of them, a row of b_tile BN / 4.
    const int load_row_a = threadIdx.x / (BK / 4);
    const int load_col_a = threadIdx.x % (BK / 4) * 4;
    const int load_row_b = threadIdx.x / (BN / 4);
    const int load_col_b = threadIdx.x % (BN / 4) * 4;

    // Walk along K, one tile at a time.
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const Matrix<const float> a_tile = a.tile(block_row, k0, BM, BK);
        const Matrix<const float> b_tile = b.tile(k0, block_col, BK, BN);
        for (int r = 0; r < BM; r += A_ROWS) {
            const float4 four = float4_at(a_tile(load_row_a + r, load_col_a));
            // TODO(1): which k and which row of A is each of the four floats? Where does it go in the transposed As?
        }
        for (int r = 0; r < BK; r += B_ROWS)
            float4_at(Bs[load_row_b + r][load_col_b]) = float4_at(b_tile(load_row_b + r, load_col_b));
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            // TODO(2): which TN columns of Bs are mine? Where does each piece of four start?

            // TODO(3): which TM rows are mine? Where does each piece of four start in As?

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();
    }

    // Write my elements back.
    // TODO(4): which row and column of C does acc[i][j] belong to? Store four columns at a time.
}
