// Lesson 25: dp4a
// New idea: int8 in, int32 out: four products and their sum in one instruction, if four k lie in one register.
// Before:   lesson 09, one float a register. Now: a word of shared memory is four k, so B is transposed in fours.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps; BM = 128, BN = 64, BK = 32, WM = 64, WN = 32, TM = TN = 8.
#include "int4.cuh"
#include "matrix.cuh"

// Four numbers of each of four rows, a row in each word -> four numbers of each of four columns, a column in each word.
__device__ inline int4 turned(const int (&row)[4])
{
    int4 column = {};
    // (1) First the rows two by two, then the pairs. 0 to 3 are the bytes of the first word, 4 to 7 of the second.
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
    constexpr int BW = BK / 4;                  // words of a tile along K
    constexpr int A_ROWS = THREADS / (BW / 4);  // rows of a_tile that the block copies in one round, four words each
    constexpr int B_WORDS = THREADS / (BN / 4); // words along K of b_tile, four columns a thread
    static_assert(BM % A_ROWS == 0 && BW % B_WORDS == 0, "the tiles must be whole rounds of copying");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    __shared__ __align__(16) int As[2][BW][BM + 4]; // two buffers; an int is four k
    __shared__ __align__(16) int Bs[2][BW][BN];

    const Matrix<const signed char> a{A, M, K, K, 1};
    const Matrix<const signed char> b{B, K, N, N, 1};
    const Matrix<int> c{C, M, N, N, 1};

    // Which elements of C are mine? My warp's tile, and in it TM x TN in pieces of 4 x 4.
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

    // Which words of the tiles do I copy? Of A four words of a row: 16 k. Of B one word of four columns: 4 x 4 numbers.
    const int load_row_a = threadIdx.x / (BW / 4);
    const int load_word_a = threadIdx.x % (BW / 4) * 4;
    const int load_word_b = threadIdx.x / (BN / 4);
    const int load_col_b = threadIdx.x % (BN / 4) * 4;

    int acc[TM][TN] = {};
    int4 a_next[BM / A_ROWS] = {};
    int b_next[BW / B_WORDS][4] = {}; // four rows of B for each word
    const Matrix<const signed char> a_mine = a.tile(block_row + load_row_a, load_word_a * 4, BM, K);
    const Matrix<const signed char> b_mine = b.tile(load_word_b * 4, block_col + load_col_b, K, BN);

    // global memory -> registers
    const auto fetch = [&](int k0) {
        // (2) A lies along K already: 16 bytes at once. Of B, four columns of each of the four rows of a word.
        for (int r = 0; r < BM; r += A_ROWS)
            a_next[r / A_ROWS] = int4_at(a_mine(r, k0));
        for (int w = 0; w < BW; w += B_WORDS)
            for (int i = 0; i < 4; i++)
                b_next[w / B_WORDS][i] = int_at(b_mine(k0 + w * 4 + i, 0));
    };

    // registers -> shared memory
    const auto store = [&](int buffer) {
        // (3) Words of A go below each other, as floats did in lesson 07. B is turned, and its words lie side by side.
        for (int r = 0; r < BM; r += A_ROWS) {
            As[buffer][load_word_a + 0][load_row_a + r] = a_next[r / A_ROWS].x;
            As[buffer][load_word_a + 1][load_row_a + r] = a_next[r / A_ROWS].y;
            As[buffer][load_word_a + 2][load_row_a + r] = a_next[r / A_ROWS].z;
            As[buffer][load_word_a + 3][load_row_a + r] = a_next[r / A_ROWS].w;
        }
        for (int w = 0; w < BW; w += B_WORDS)
            int4_at(Bs[buffer][load_word_b + w][load_col_b]) = turned(b_next[w / B_WORDS]);
    };

    // shared memory -> products
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int w = 0; w < BW; w++) {
            int a_frag[TM];
            int b_frag[TN];
            for (int j = 0; j < TN; j += 4)
                int4_at(b_frag[j]) = int4_at(Bs[buffer][w][thread_col + j / 4 * COL_STEP]);
            for (int i = 0; i < TM; i += 4)
                int4_at(a_frag[i]) = int4_at(As[buffer][w][thread_row + i / 4 * ROW_STEP]);

            // (4) Four k at once.
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] = __dp4a(a_frag[i], b_frag[j], acc[i][j]);
        }
    };

    // One turn: the tile in buffer `now` is multiplied while the tile at k0 arrives and goes to the other buffer.
    const auto turn = [&](int now, int k0) {
        fetch(k0);
        multiply(now);
        store(1 - now);
        __syncthreads();
    };

    fetch(0);
    store(0);
    __syncthreads();

    // Two turns at a time, so that the numbers of the buffers are constants.
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

    // Write my elements back.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = block_row + thread_row + i / 4 * ROW_STEP + i % 4;
            const int col = block_col + thread_col + j / 4 * COL_STEP;
            int4_at(c(row, col)) = int4_at(acc[i][j]);
        }
}
