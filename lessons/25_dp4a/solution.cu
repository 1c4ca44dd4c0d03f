// Lesson 25: dp4a
// New idea: int8 in, int32 out: one instruction adds four products, if four k are in one register.
// Before:   lesson 09, one float in a register. Now: a word of shared memory is four k, so B is transposed in fours.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps; BM = 128, BN = 64, BK = 32, WM = 64, WN = 32, TM = TN = 8.
// gemm_halves, the second half of the lesson, is at the end: gemm-lessons run 25 --type halves.
#include <cuda_fp16.h>

#include "int4.cuh"
#include "matrix.cuh"

// Four numbers of each of four rows, a row in each word -> of four columns, a column in each word.
__device__ inline int4 transposed(const int (&row)[4])
{
    int4 column = {};
    // (1) First two rows each, then the pairs. 0 to 3 are the bytes of the first word, 4 to 7 those of the second.
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
    constexpr int A_ROWS = THREADS / (BW / 4);  // rows of a_tile that the block copies in one iteration
    constexpr int B_WORDS = THREADS / (BN / 4); // words along K of b_tile, four columns a thread
    static_assert(BM % A_ROWS == 0 && BW % B_WORDS == 0, "each iteration of the copy moves whole rows");
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
        // (2) Rows of A are along K: 16 bytes at once. Of B, four columns of each of the four rows of a word.
        for (int r = 0; r < BM; r += A_ROWS)
            a_next[r / A_ROWS] = int4_at(a_mine(r, k0));
        for (int w = 0; w < BW; w += B_WORDS)
            for (int i = 0; i < 4; i++)
                b_next[w / B_WORDS][i] = int_at(b_mine(k0 + w * 4 + i, 0));
    };

    // registers -> shared memory
    const auto store = [&](int buffer) {
        // (3) Words of A go to four rows of As, as floats in lesson 07. B is transposed; its words go to one row of Bs.
        for (int r = 0; r < BM; r += A_ROWS) {
            As[buffer][load_word_a + 0][load_row_a + r] = a_next[r / A_ROWS].x;
            As[buffer][load_word_a + 1][load_row_a + r] = a_next[r / A_ROWS].y;
            As[buffer][load_word_a + 2][load_row_a + r] = a_next[r / A_ROWS].z;
            As[buffer][load_word_a + 3][load_row_a + r] = a_next[r / A_ROWS].w;
        }
        for (int w = 0; w < BW; w += B_WORDS)
            int4_at(Bs[buffer][load_word_b + w][load_col_b]) = transposed(b_next[w / B_WORDS]);
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

    // One iteration: multiply the tile in buffer `now` while the tile at k0 arrives, then store that to the other buffer.
    const auto turn = [&](int now, int k0) {
        fetch(k0);
        multiply(now);
        store(1 - now);
        __syncthreads();
    };

    fetch(0);
    store(0);
    __syncthreads();

    // Two iterations at a time, so that the numbers of the buffers are constants.
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

// The second half: float16 in and out, two k in a word. BLOCKS_PER_SM = 2.
extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm_halves(const half *A, const half *B, half *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int BW = BK / 4;    // words of a tile along K
    constexpr int DEPTH = 2 * BW; // k of a tile
    constexpr int A_ROWS = THREADS / (BW / 4);
    constexpr int B_WORDS = THREADS / (BN / 4);
    static_assert(BM % A_ROWS == 0 && BW % B_WORDS == 0, "each iteration of the copy moves whole rows");
    __shared__ __align__(16) int As[2][BW][BM + 4];
    __shared__ __align__(16) int Bs[2][BW][BN];

    const Matrix<const half> a{A, M, K, K, 1};
    const Matrix<const half> b{B, K, N, N, 1};
    const Matrix<half> c{C, M, N, N, 1};

    // Which elements of C are mine? The same as above.
    constexpr int LANE_COLS = WN / TN;
    constexpr int ROW_STEP = WM / (TM / 4);
    constexpr int COL_STEP = WN / (TN / 4);
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int thread_row = warp / (BN / WN) * WM + (lane / (2 * LANE_COLS) * 2 + lane % 2) * 4;
    const int thread_col = warp % (BN / WN) * WN + lane / 2 % LANE_COLS * 4;

    // Which words of the tiles do I copy? Of A four words of a row, of B one word of each of four columns.
    const int load_row_a = threadIdx.x / (BW / 4);
    const int load_word_a = threadIdx.x % (BW / 4) * 4;
    const int load_word_b = threadIdx.x / (BN / 4);
    const int load_col_b = threadIdx.x % (BN / 4) * 4;

    half2 acc[TM][TN] = {}; // of at most PROMOTE k: even k and odd k
    float sums[TM][TN] = {}; // of the k before
    int4 words_a[BM / A_ROWS] = {};
    int2 rows_b[BW / B_WORDS][2] = {}; // for each word two rows of B, four columns of each
    const Matrix<const half> a_mine = a.tile(block_row + load_row_a, load_word_a * 2, BM, K);
    const Matrix<const half> b_mine = b.tile(load_word_b * 2, block_col + load_col_b, K, BN);

    // global memory -> registers
    const auto fetch = [&](int k0) {
        // (5) As in (2), with two rows of B for a word.
        for (int r = 0; r < BM; r += A_ROWS)
            words_a[r / A_ROWS] = int4_at(a_mine(r, k0));
        for (int w = 0; w < BW; w += B_WORDS)
            for (int i = 0; i < 2; i++)
                rows_b[w / B_WORDS][i] = int2_at(b_mine(k0 + w * 2 + i, 0));
    };

    // registers -> shared memory
    const auto store = [&](int buffer) {
        __syncwarp(); // or the compiler moves __byte_perm up, to where it waits for the loads
        // (6) As in (3). Two __byte_perm make the words of two columns.
        for (int r = 0; r < BM; r += A_ROWS) {
            const int4 four = words_a[r / A_ROWS];
            As[buffer][load_word_a + 0][load_row_a + r] = four.x;
            As[buffer][load_word_a + 1][load_row_a + r] = four.y;
            As[buffer][load_word_a + 2][load_row_a + r] = four.z;
            As[buffer][load_word_a + 3][load_row_a + r] = four.w;
        }
        for (int w = 0; w < BW; w += B_WORDS) {
            const int2 even = rows_b[w / B_WORDS][0], odd = rows_b[w / B_WORDS][1];
            int4 column = {};
            column.x = __byte_perm(even.x, odd.x, 0x5410);
            column.y = __byte_perm(even.x, odd.x, 0x7632);
            column.z = __byte_perm(even.y, odd.y, 0x5410);
            column.w = __byte_perm(even.y, odd.y, 0x7632);
            int4_at(Bs[buffer][load_word_b + w][load_col_b]) = column;
        }
    };

    // shared memory -> products
    const auto products = [&](int buffer) {
#pragma unroll
        for (int w = 0; w < BW; w++) {
            int a_frag[TM];
            int b_frag[TN];
            for (int j = 0; j < TN; j += 4)
                int4_at(b_frag[j]) = int4_at(Bs[buffer][w][thread_col + j / 4 * COL_STEP]);
            for (int i = 0; i < TM; i += 4)
                int4_at(a_frag[i]) = int4_at(As[buffer][w][thread_row + i / 4 * ROW_STEP]);

            // (7) Two k at once, each in its own sum.
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] = __hfma2(half2_at(a_frag[i]), half2_at(b_frag[j]), acc[i][j]);
        }
    };

    // sums in halves -> sums in fp32
    const auto promote = [&] {
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j++) {
                // (8) Both halves, in fp32. The next sums start from zero.
                sums[i][j] += __low2float(acc[i][j]) + __high2float(acc[i][j]);
                acc[i][j] = half2{};
            }
    };

    fetch(0);
    store(0);
    __syncthreads();
    int k0 = DEPTH;
    const auto next = [&](int now) {
        fetch(k0);
        products(now);
        store(1 - now);
        __syncthreads();
        k0 += DEPTH;
    };
    while (k0 + DEPTH < K) {
        next(0);
        next(1);
        if ((k0 - DEPTH) % PROMOTE == 0)
            promote();
    }
    if (k0 < K) {
        next(0);
        products(1);
    } else {
        products(0);
    }
    promote();

    // Write my elements back, rounded to halves.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = block_row + thread_row + i / 4 * ROW_STEP + i % 4;
            const int col = block_col + thread_col + j / 4 * COL_STEP;
            const half2 left = __floats2half2_rn(sums[i][j], sums[i][j + 1]);
            const half2 right = __floats2half2_rn(sums[i][j + 2], sums[i][j + 3]);
            int2_at(c(row, col)) = {int_of(left), int_of(right)};
        }
}
