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
    // TODO(1): my two doubles of a piece of A (row, column) and of B, as in lesson 09: PK / 2 or BN / 2 threads a row.

    double acc[TM][TN] = {};
    double2 a_next[BM / A_ROWS]; // of one piece only
    double2 b_next[PK / B_ROWS];
    const Matrix<const double> a_mine = a.tile(block_row + load_row_a, load_col_a, BM, K);
    const Matrix<const double> b_mine = b.tile(load_row_b, block_col + load_col_b, K, BN);

    // global memory -> registers: the piece that begins at k
    const auto fetch = [&](int k) {
        // TODO(2): load my double2 of every iteration: a_mine(r, k) into a_next, b_mine(k + r, 0) into b_next.
    };

    // registers -> shared memory: they are free for the next piece
    const auto store = [&](int buffer, int piece) {
        // TODO(3): store a_next to two rows and b_next to one, in tiles[buffer]. The piece starts at k = piece * PK.
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

            // TODO(4): add the TM x TN products of a_frag and b_frag to acc, odd rows backwards.
        }
    };

    // One iteration: multiply the tile in buffer `now` while the tile at k0 arrives in the other, piece by piece.
    const auto turn = [&](int now, int k0) {
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            // TODO(5): fetch the piece at k0 + piece * PK; keep it above the products with __syncwarp(); multiply a piece; store.
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
