// cheat: wrong values: takes the bytes for unsigned
// expect: wrong_answer wrong at
#include "int4.cuh"
#include "matrix.cuh"

__device__ inline int4 turned(const int (&row)[4])
{
    int4 column = {};
    const int left_01 = __byte_perm(row[0], row[1], 0x5140);
    const int left_23 = __byte_perm(row[2], row[3], 0x5140);
    const int right_01 = __byte_perm(row[0], row[1], 0x7362);
    const int right_23 = __byte_perm(row[2], row[3], 0x7362);
    column.x = __byte_perm(left_01, left_23, 0x5410);
    column.y = __byte_perm(left_01, left_23, 0x7632);
    column.z = __byte_perm(right_01, right_23, 0x5410);
    column.w = __byte_perm(right_01, right_23, 0x7632);
    return column;
}

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const signed char *A, const signed char *B, int *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int BW = BK / 4;
    constexpr int A_ROWS = THREADS / (BW / 4);
    constexpr int B_WORDS = THREADS / (BN / 4);
    static_assert(BM % A_ROWS == 0 && BW % B_WORDS == 0, "the tiles must be whole rounds of copying");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    __shared__ __align__(16) int As[2][BW][BM + 4];
    __shared__ __align__(16) int Bs[2][BW][BN];

    const Matrix<const signed char> a{A, M, K, K, 1};
    const Matrix<const signed char> b{B, K, N, N, 1};
    const Matrix<int> c{C, M, N, N, 1};

    constexpr int LANE_COLS = WN / TN;
    constexpr int ROW_STEP = WM / (TM / 4);
    constexpr int COL_STEP = WN / (TN / 4);
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;
    const int lane_row = lane / (2 * LANE_COLS) * 2 + lane % 2;
    const int lane_col = lane / 2 % LANE_COLS;
    const int thread_row = warp_row + lane_row * 4;
    const int thread_col = warp_col + lane_col * 4;

    const int load_row_a = threadIdx.x / (BW / 4);
    const int load_word_a = threadIdx.x % (BW / 4) * 4;
    const int load_word_b = threadIdx.x / (BN / 4);
    const int load_col_b = threadIdx.x % (BN / 4) * 4;

    int acc[TM][TN] = {};
    int4 a_next[BM / A_ROWS] = {};
    int b_next[BW / B_WORDS][4] = {};
    const Matrix<const signed char> a_mine = a.tile(block_row + load_row_a, load_word_a * 4, BM, K);
    const Matrix<const signed char> b_mine = b.tile(load_word_b * 4, block_col + load_col_b, K, BN);

    const auto fetch = [&](int k0) {
        for (int r = 0; r < BM; r += A_ROWS)
            a_next[r / A_ROWS] = int4_at(a_mine(r, k0));
        for (int w = 0; w < BW; w += B_WORDS)
            for (int i = 0; i < 4; i++)
                b_next[w / B_WORDS][i] = int_at(b_mine(k0 + w * 4 + i, 0));
    };

    const auto store = [&](int buffer) {
        for (int r = 0; r < BM; r += A_ROWS) {
            As[buffer][load_word_a + 0][load_row_a + r] = a_next[r / A_ROWS].x;
            As[buffer][load_word_a + 1][load_row_a + r] = a_next[r / A_ROWS].y;
            As[buffer][load_word_a + 2][load_row_a + r] = a_next[r / A_ROWS].z;
            As[buffer][load_word_a + 3][load_row_a + r] = a_next[r / A_ROWS].w;
        }
        for (int w = 0; w < BW; w += B_WORDS)
            int4_at(Bs[buffer][load_word_b + w][load_col_b]) = turned(b_next[w / B_WORDS]);
    };

    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int w = 0; w < BW; w++) {
            int a_frag[TM];
            int b_frag[TN];
            for (int j = 0; j < TN; j += 4)
                int4_at(b_frag[j]) = int4_at(Bs[buffer][w][thread_col + j / 4 * COL_STEP]);
            for (int i = 0; i < TM; i += 4)
                int4_at(a_frag[i]) = int4_at(As[buffer][w][thread_row + i / 4 * ROW_STEP]);

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] = (int)__dp4a((unsigned)a_frag[i], (unsigned)b_frag[j], (unsigned)acc[i][j]);
        }
    };

    const auto turn = [&](int now, int k0) {
        fetch(k0);
        multiply(now);
        store(1 - now);
        __syncthreads();
    };

    fetch(0);
    store(0);
    __syncthreads();

    int k0 = BK;
    for (; k0 + BK < K; k0 += 2 * BK) {
        turn(0, k0);
        turn(1, k0 + BK);
    }
    if (k0 < K) {
        turn(0, k0);
        multiply(1);
    } else {
        multiply(0);
    }

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = block_row + thread_row + i / 4 * ROW_STEP + i % 4;
            const int col = block_col + thread_col + j / 4 * COL_STEP;
            int4_at(c(row, col)) = int4_at(acc[i][j]);
        }
}
