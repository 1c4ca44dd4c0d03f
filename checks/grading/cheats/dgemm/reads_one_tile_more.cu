// cheat: out of bounds: fetches behind the last tile, too
// expect: faulted out_of_bounds
#include "double2.cuh"
#include "matrix.cuh"

constexpr int PK = BK / PIECES;
constexpr int PAD = PK < 8 ? 16 / PK : 2;

struct Tiles {
    double a[BK][BM + PAD];
    double b[BK][BN];
};

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const double *A, const double *B, double *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (PK / 2);
    constexpr int B_ROWS = THREADS / (BN / 2);
    static_assert(BK % PIECES == 0 && BM % A_ROWS == 0 && PK % B_ROWS == 0, "a piece must be whole rounds of copying");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    extern __shared__ __align__(16) char memory[];
    Tiles *tiles = reinterpret_cast<Tiles *>(memory);

    const Matrix<const double> a{A, M, K, K, 1};
    const Matrix<const double> b{B, K, N, N, 1};
    const Matrix<double> c{C, M, N, N, 1};

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

    int load_row_a = 0;
    int load_col_a = 0;
    int load_row_b = 0;
    int load_col_b = 0;
    load_row_a = threadIdx.x / (PK / 2);
    load_col_a = threadIdx.x % (PK / 2) * 2;
    load_row_b = threadIdx.x / (BN / 2);
    load_col_b = threadIdx.x % (BN / 2) * 2;

    double acc[TM][TN] = {};
    double2 a_next[BM / A_ROWS];
    double2 b_next[PK / B_ROWS];
    const Matrix<const double> a_mine = a.tile(block_row + load_row_a, load_col_a, BM, K);
    const Matrix<const double> b_mine = b.tile(load_row_b, block_col + load_col_b, K, BN);

    const auto fetch = [&](int k) {
        for (int r = 0; r < BM; r += A_ROWS)
            a_next[r / A_ROWS] = double2_at(a_mine(r, k));
        for (int r = 0; r < PK; r += B_ROWS)
            b_next[r / B_ROWS] = double2_at(b_mine(k + r, 0));
    };

    const auto store = [&](int buffer, int piece) {
        for (int r = 0; r < BM; r += A_ROWS) {
            tiles[buffer].a[piece * PK + load_col_a + 0][load_row_a + r] = a_next[r / A_ROWS].x;
            tiles[buffer].a[piece * PK + load_col_a + 1][load_row_a + r] = a_next[r / A_ROWS].y;
        }
        for (int r = 0; r < PK; r += B_ROWS)
            double2_at(tiles[buffer].b[piece * PK + load_row_b + r][load_col_b]) = b_next[r / B_ROWS];
    };

    const auto multiply = [&](int buffer, int piece) {
#pragma unroll
        for (int k = piece * PK; k < (piece + 1) * PK; k++) {
            double a_frag[TM];
            double b_frag[TN];
            for (int j = 0; j < TN; j += 2)
                double2_at(b_frag[j]) = double2_at(tiles[buffer].b[k][thread_col + j / 2 * COL_STEP]);
            for (int i = 0; i < TM; i += 2)
                double2_at(a_frag[i]) = double2_at(tiles[buffer].a[k][thread_row + i / 2 * ROW_STEP]);

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) {
                    const int there = i % 2 ? TN - 1 - j : j;
                    acc[i][there] += a_frag[i] * b_frag[there];
                }
        }
    };

    const auto turn = [&](int now, int k0) {
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            fetch(k0 + piece * PK);
            __syncwarp();
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

    int k0 = BK;
    for (; k0 + BK < K; k0 += 2 * BK) {
        turn(0, k0);
        turn(1, k0 + BK);
    }
    if (k0 <= K) {
        turn(0, k0);
        last(1);
    } else {
        last(0);
    }

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 2) {
            const int row = block_row + thread_row + i / 2 * ROW_STEP + i % 2;
            const int col = block_col + thread_col + j / 2 * COL_STEP;
            double2_at(c(row, col)) = double2_at(acc[i][j]);
        }
}
