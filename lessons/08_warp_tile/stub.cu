// Lesson 08: warp tiles
// New idea: block -> warp -> thread. Each warp owns a tile; its lanes are 4 rows of 8, ordered in pairs.
// Before:   lesson 07, a warp is 2 rows of 16 lanes: 12 shared wavefronts per k. Now: 8, and blocks of any shape.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps; BM = 64, BN = 128, BK = 8, WM = 32, WN = 64, TM = TN = 8.
#include "float4.cuh"
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (BK / 4); // rows of a_tile that the block copies in one pass
    constexpr int B_ROWS = THREADS / (BN / 4); // rows of b_tile
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the tiles must be whole passes of copying");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    __shared__ __align__(16) float As[BK][BM + 4]; // transposed, with 4 floats of padding per row
    __shared__ __align__(16) float Bs[BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which elements of C are mine? My warp's tile, and in it TM x TN in pieces of 4 x 4.
    constexpr int LANE_COLS = WN / TN;
    constexpr int ROW_STEP = WM / (TM / 4);
    constexpr int COL_STEP = WN / (TN / 4);
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    int warp_row = 0;
    int warp_col = 0;
    // TODO(1): where in the block tile does my warp's tile start?
    int lane_row = 0;
    int lane_col = 0;
    // TODO(2): which row and column of the warp's lanes is mine? See the drawing in "Which lane owns what".
    const int thread_row = warp_row + lane_row * 4;
    const int thread_col = warp_col + lane_col * 4;

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
            As[load_col_a + 0][load_row_a + r] = four.x;
            As[load_col_a + 1][load_row_a + r] = four.y;
            As[load_col_a + 2][load_row_a + r] = four.z;
            As[load_col_a + 3][load_row_a + r] = four.w;
        }
        for (int r = 0; r < BK; r += B_ROWS)
            float4_at(Bs[load_row_b + r][load_col_b]) = float4_at(b_tile(load_row_b + r, load_col_b));
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            // TODO(3): which pieces of Bs and As are mine? How far apart are they now?

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();
    }

    // Write my elements back.
    // TODO(4): which row and column of C does acc[i][j] belong to? Store four columns at a time.
}
