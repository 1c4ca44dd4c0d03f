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
    // TODO(1): bytes of four rows -> bytes of four columns, by __byte_perm: first two rows each, then the pairs.
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
        // TODO(2): load 16 k of each of my rows of A into a_next; of B, four columns of the four rows of a word into b_next.
    };

    // registers -> shared memory
    const auto store = [&](int buffer) {
        // TODO(3): store the words of a_next to four rows of As[buffer], and b_next, transposed, to Bs[buffer].
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

            // TODO(4): add the products of a_frag and b_frag to acc, four k at once.
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
        // TODO(5): load words_a and rows_b. How many k are in 16 bytes now, and how many rows of B in a word?
    };

    // registers -> shared memory
    const auto store = [&](int buffer) {
        __syncwarp(); // or the compiler moves __byte_perm up, to where it waits for the loads
        // TODO(6): store both, as in (3). Which two halves of rows_b make the word of a column?
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

            // TODO(7): add the products of a_frag and b_frag to acc, two k at once.
        }
    };

    // sums in halves -> sums in fp32
    const auto promote = [&] {
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j++) {
                // TODO(8): add both sums of acc[i][j] to sums[i][j]. What do the next sums start from?
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
