// Lesson 24: dgemm
// New idea: fp64; the tiles follow from a model of the GPU, and the next tile comes in pieces, so that few registers
//           hold what is in flight.
// Before:   lesson 09, fp32: the whole next tile in registers. Now: a piece of it, PIECES times.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps, shared memory for two Tiles; BM = BN = 128, BK = 16,
//           WM = 32, WN = 64, TM = TN = 8.
#include "double2.cuh"
#include "matrix.cuh"

constexpr int PK = BK / PIECES;           // k of a piece
constexpr int PAD = PK < 8 ? 16 / PK : 2; // doubles after a row of a, so that stores have no conflicts

struct Tiles { // of one K tile: what a buffer holds
    double a[BK][BM + PAD];
    double b[BK][BN];
};

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const double *A, const double *B, double *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (PK / 2); // rows of a_tile that the block copies in one iteration
    constexpr int B_ROWS = THREADS / (BN / 2); // rows of b_tile
    static_assert(BK % PIECES == 0 && BM % A_ROWS == 0 && PK % B_ROWS == 0, "each iteration of the copy moves whole rows");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    extern __shared__ __align__(16) char memory[];    // sized by the launch
    Tiles *tiles = reinterpret_cast<Tiles *>(memory); // two buffers

    const Matrix<const double> a{A, M, K, K, 1};
    const Matrix<const double> b{B, K, N, N, 1};
    const Matrix<double> c{C, M, N, N, 1};

    // Which elements of C are mine? My warp's tile, and in it TM x TN in pieces of 2 x 2.
    constexpr int LANE_COLS = WN / TN;
    constexpr int ROW_STEP = WM / (TM / 2);
    constexpr int COL_STEP = WN / (TN / 2);
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;
    const int lane_row = lane / (2 * LANE_COLS) * 2 + lane % 2;
    const int lane_col = lane / 2 % LANE_COLS;
    const int thread_row = warp_row + lane_row * 2;
    const int thread_col = warp_col + lane_col * 2;

    // Which double2 of a piece do I copy? A row of A has PK / 2 of them, a row of B BN / 2.
    int load_row_a = 0;
    int load_col_a = 0;
    int load_row_b = 0;
    int load_col_b = 0;
    // (1) Two doubles are one access: half as many threads for a row, and twice as many rows in an iteration.
    load_row_a = threadIdx.x / (PK / 2);
    load_col_a = threadIdx.x % (PK / 2) * 2;
    load_row_b = threadIdx.x / (BN / 2);
    load_col_b = threadIdx.x % (BN / 2) * 2;

    double acc[TM][TN] = {};
    double2 a_next[BM / A_ROWS]; // of one piece only
    double2 b_next[PK / B_ROWS];
    const Matrix<const double> a_mine = a.tile(block_row + load_row_a, load_col_a, BM, K);
    const Matrix<const double> b_mine = b.tile(load_row_b, block_col + load_col_b, K, BN);

    // global memory -> registers: the piece that begins at k
    const auto fetch = [&](int k) {
        // (2) As in lesson 09, only that a piece is PK of K.
        for (int r = 0; r < BM; r += A_ROWS)
            a_next[r / A_ROWS] = double2_at(a_mine(r, k));
        for (int r = 0; r < PK; r += B_ROWS)
            b_next[r / B_ROWS] = double2_at(b_mine(k + r, 0));
    };

    // registers -> shared memory: they are free for the next piece
    const auto store = [&](int buffer, int piece) {
        // (3) The rows of a tile that belong to the piece begin at piece * PK.
        for (int r = 0; r < BM; r += A_ROWS) {
            tiles[buffer].a[piece * PK + load_col_a + 0][load_row_a + r] = a_next[r / A_ROWS].x;
            tiles[buffer].a[piece * PK + load_col_a + 1][load_row_a + r] = a_next[r / A_ROWS].y;
        }
        for (int r = 0; r < PK; r += B_ROWS)
            double2_at(tiles[buffer].b[piece * PK + load_row_b + r][load_col_b]) = b_next[r / B_ROWS];
    };

    // shared memory -> products, for PK of K
    const auto multiply = [&](int buffer, int piece) {
#pragma unroll
        for (int k = piece * PK; k < (piece + 1) * PK; k++) {
            double a_frag[TM];
            double b_frag[TN];
            for (int j = 0; j < TN; j += 2)
                double2_at(b_frag[j]) = double2_at(tiles[buffer].b[k][thread_col + j / 2 * COL_STEP]);
            for (int i = 0; i < TM; i += 2)
                double2_at(a_frag[i]) = double2_at(tiles[buffer].a[k][thread_row + i / 2 * ROW_STEP]);

            // (4) There and back: from one product to the next, one of the two factors stays.
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) {
                    const int there = i % 2 ? TN - 1 - j : j;
                    acc[i][there] += a_frag[i] * b_frag[there];
                }
        }
    };

    // One iteration: multiply the tile in buffer `now` while the tile at k0 arrives in the other, piece by piece.
    const auto turn = [&](int now, int k0) {
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            // (5) While a piece is in flight, multiply as much of this tile.
            fetch(k0 + piece * PK);
            __syncwarp(); // no load moves down past this line
            multiply(now, piece);
            store(1 - now, piece);
        }
        __syncthreads();
    };
    const auto last = [&](int now) {
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++)
            multiply(now, piece);
    };

#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        fetch(piece * PK);
        store(0, piece);
    }
    __syncthreads();

    // Two iterations at a time, so that the numbers of the buffers are constants.
    int k0 = BK;
    for (; k0 + BK < K; k0 += 2 * BK) {
        turn(0, k0);
        turn(1, k0 + BK);
    }
    if (k0 < K) {
        turn(0, k0);
        last(1);
    } else {
        last(0);
    }

    // Write my elements back.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 2) {
            const int row = block_row + thread_row + i / 2 * ROW_STEP + i % 2;
            const int col = block_col + thread_col + j / 2 * COL_STEP;
            double2_at(c(row, col)) = double2_at(acc[i][j]);
        }
}
