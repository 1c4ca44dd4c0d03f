// Lesson 15: mma
// New idea: fragments by hand: ldmatrix from tiles that are swizzled instead of padded, mma.sync, and the fragments of
//           the next step on their way while this one is multiplied.
// Before:   lesson 14, fragments that nobody looks into, and a warp that waits for each of them.
// Launch:   grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps; BM = 256, BN = 128, BK = 64, WM = WN = 64, STAGES = 4.
//           BAND rows of blocks go through the columns of B together.
//           TYPE says which numbers: 1 is float16, fragments.cuh has the others, and split.cuh float32 in two parts.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include "floats.cuh"
#include "matrix.cuh"
#include "mma.cuh"

// Where number (row, col) of a tile of COLS columns lies. A row is pieces of 16 bytes, and these change places.
template <int COLS, typename Number>
__device__ inline unsigned swizzled(unsigned row, unsigned col, unsigned turn)
{
    constexpr int PIECE = 16 / sizeof(Number);
    unsigned place = col / PIECE;
    // (1) Another place in each of eight rows below each other: eight places are all 32 banks.
    place ^= turn % 8;
    return row * COLS + place * PIECE + col % PIECE;
}

// Numbers of 16 bits. A product of fragments takes 16 of k, and one ldmatrix loads B for two products.
template <typename Number>
struct OfHalves {
    using Element = Number;
    using Sum = float;
    using A = unsigned[4];    // a lane's share of 16 rows x 16 k
    using B = unsigned[2][2]; // of 16 k x 16 columns, for two products
    using Sums = float[2][4]; // of 16 rows x 16 columns
    static constexpr int DEPTH = 16, COLS = 16, PARTS = 1, PASSES = 1, PAD = 8;
    static constexpr bool B_FIRST = false;

    __device__ static unsigned turn_a(unsigned row) { return row; }
    __device__ static unsigned turn_b(unsigned row) { return row; }

    template <int WIDTH>
    __device__ static void load_a(A &a, const Number *tile, int row, int k)
    {
        const int lane = threadIdx.x % 32;
        // (2) Lanes 0 to 7, 8 to 15, 16 to 23, 24 to 31: rows 0 to 7 and 8 to 15, then both with k from 8 on.
        row += lane % 16;
        k += lane / 16 * 8;
        ldmatrix(a, &tile[swizzled<WIDTH, Number>(row, k, turn_a(row))]);
    }

    template <int WIDTH>
    __device__ static void load_b(B &b, const Number *tile, int k, int col)
    {
        const int lane = threadIdx.x % 32;
        // (3) k from 0 and from 8 for the first product, then both for the second, 8 columns on.
        k += lane % 16;
        col += lane / 16 * 8;
        ldmatrix_trans(b, &tile[swizzled<WIDTH, Number>(k, col, turn_b(k))]);
    }

    __device__ static void store(const Matrix<float> &c, int row, int col, const Sums &sums)
    {
        const int lane = threadIdx.x % 32;
        for (int w = 0; w < 2; w++)
            for (int half = 0; half < 2; half++) {
                const Floats<2> pair = {sums[w][2 * half], sums[w][2 * half + 1]};
                // (4) Four lanes have a row of 8 columns, two columns each. The second pair is 8 rows further down.
                floats_at<2>(c(row + 8 * half + lane / 4, col + 8 * w + lane % 4 * 2)) = pair;
            }
    }

    __device__ static void settle(Sums &) {} // after each tile; something to do only where fp32 is split
};

template <int WHICH>
struct Fragments : OfHalves<half> {
    __device__ static void multiply_add(Sums &sums, const A &a, const B &b, int)
    {
        for (int w = 0; w < 2; w++)
            mma_f16(sums[w], a, b[w]);
    }
};

#include "fragments.cuh" // the same for other types
#include "split.cuh"     // and for fp32, in two parts

using Of = Fragments<TYPE>;
using Element = Of::Element;
using Sum = Of::Sum;

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const Element *A, const Element *B, Sum *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int PIECE = 16 / sizeof(Element);    // numbers that one copy takes
    constexpr int A_ROWS = THREADS / (BK / PIECE); // rows of a_tile that the block copies in one round
    constexpr int B_ROWS = THREADS / (BN / PIECE); // rows of b_tile
    constexpr int PARTS = Of::PARTS;               // matrices that each of A and B is given as
    constexpr int STEPS = BK / Of::DEPTH;
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the tiles must be whole rounds of copying");
    static_assert(BK % (8 * PIECE) == 0 && BN % (8 * PIECE) == 0, "eight pieces of a row change places");
    static_assert(WM % 16 == 0 && WN % Of::COLS == 0, "a warp tile is whole fragments");
    static_assert(STEPS % 2 == 0, "the two sets of fragments take turns");
    struct Stage {
        Element a[PARTS][BM * BK], b[PARTS][BK * BN];
    };
    extern __shared__ __align__(128) unsigned char shared[];
    Stage *stages = reinterpret_cast<Stage *>(shared);

    const Matrix<const Element> a{A, M, K, K, 1};
    const Matrix<const Element> b{B, K, N, N, 1};
    const Matrix<Sum> c{C, M, N, N, 1};

    // Which tile of C is my block's? Blocks start in the order of their numbers. Those of BAND rows go through the
    // columns together, so that the blocks that run at a time want few different tiles of A and of B.
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int band = number / (BAND * gridDim.x) * BAND;
    const int rows = min(BAND, gridDim.y - band);
    const int block_row = (band + number % (BAND * gridDim.x) % rows) * BM;
    const int block_col = number % (BAND * gridDim.x) / rows * BN;

    // And my warp's?
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;

    // Which pieces of the tiles do I copy? A row of a_tile has BK / PIECE of them, a row of b_tile BN / PIECE.
    const int load_row_a = threadIdx.x / (BK / PIECE);
    const int load_col_a = threadIdx.x % (BK / PIECE) * PIECE;
    const int load_row_b = threadIdx.x / (BN / PIECE);
    const int load_col_b = threadIdx.x % (BN / PIECE) * PIECE;
    const Element *a_from = &a(block_row + load_row_a, load_col_a); // my first pieces; they move on along K
    const Element *b_from = &b(load_row_b, block_col + load_col_b);

    // global memory -> shared memory: starts the copies of the next tile; nobody waits
    const auto copy = [&](int stage) {
        for (int part = 0; part < PARTS; part++) {
            Element *a_tile = stages[stage].a[part];
            Element *b_tile = stages[stage].b[part];
            for (int r = 0; r < BM; r += A_ROWS) {
                const int row = load_row_a + r;
                __pipeline_memcpy_async(a_tile + swizzled<BK, Element>(row, load_col_a, Of::turn_a(row)),
                                        a_from + part * M * K + r * K, 16);
            }
            for (int r = 0; r < BK; r += B_ROWS) {
                const int row = load_row_b + r;
                __pipeline_memcpy_async(b_tile + swizzled<BN, Element>(row, load_col_b, Of::turn_b(row)),
                                        b_from + part * K * N + r * N, 16);
            }
        }
        a_from += BK;
        b_from += BK * N;
    };

    // shared memory -> registers: one set of fragments is multiplied while the other arrives
    Of::A a_frag[2][WM / 16] = {};
    Of::B b_frag[2][WN / Of::COLS] = {};
    const auto load = [&](int set, int stage, int step) {
        const Element *a_tile = stages[stage].a[0];
        const Element *b_tile = stages[stage].b[0];
        for (int i = 0; i < WM / 16; i++)
            Of::template load_a<BK>(a_frag[set][i], a_tile, warp_row + i * 16, step * Of::DEPTH);
        for (int j = 0; j < WN / Of::COLS; j++)
            Of::template load_b<BN>(b_frag[set][j], b_tile, step * Of::DEPTH, warp_col + j * Of::COLS);
    };

    // registers -> products: each fragment of the factor that mma.sync takes first with all of the other
    Of::Sums acc[WM / 16][WN / Of::COLS] = {};
    const auto multiply = [&](int set) {
#pragma unroll
        for (int n = 0; n < Of::PASSES * (WM / 16) * (WN / Of::COLS); n++) {
            const int i = Of::B_FIRST ? n % (WM / 16) : n / (WN / Of::COLS) % (WM / 16);
            const int j = Of::B_FIRST ? n / (WM / 16) % (WN / Of::COLS) : n % (WN / Of::COLS);
            Of::multiply_add(acc[i][j], a_frag[set][i], b_frag[set][j], n / (WM / 16) / (WN / Of::COLS));
        }
    };

    // The first STAGES - 1 tiles are sent for, each a group of its own, as in lesson 14; and the first fragments.
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage * BK < K)
            copy(stage);
        __pipeline_commit();
    }
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    load(0, 0, 0);

    // Walk along K, one tile at a time.
    int now = 0; // the stage that holds the tile at k0
    int k0 = 0;
    const auto turn = [&](bool more, bool last) { // more: there is a tile STAGES - 1 further
        const int next = now == STAGES - 1 ? 0 : now + 1;
        const int before = now == 0 ? STAGES - 1 : now - 1; // holds the tile before this one
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            // (5) The next step's fragments. In the last step they are those of the next tile, which must have arrived.
            if (step < STEPS - 1) {
                load((step + 1) % 2, now, step + 1);
            } else if (!last) {
                __pipeline_wait_prior(STAGES - 2);
                __syncthreads();
                load(0, next, 0);
            }
            // (6) The barrier above was passed: nobody reads the tile before this one any more.
            if (step == 0 && !last) {
                if (more)
                    copy(before);
                __pipeline_commit();
            }
            multiply(step % 2);
        }
        for (int i = 0; i < WM / 16; i++)
            for (int j = 0; j < WN / Of::COLS; j++)
                Of::settle(acc[i][j]);
        now = next;
        k0 += BK;
    };
    while (Of::PASSES == 1 && k0 + (STAGES - 1) * BK < K)
        turn(true, false); // a turn of its own, without questions; with three passes it gains nothing
    while (k0 + BK < K)
        turn(k0 + (STAGES - 1) * BK < K, false);
    turn(false, true);

    // Write my elements back: 16 rows at a time through the stage that nobody reads any more, so that the lanes of a
    // warp store 16 bytes each, side by side in whole rows of its tile.
    constexpr int SIDE = 16 / sizeof(Sum), WIDE = WN / SIDE;
    static_assert(32 % WIDE == 0, "the lanes of a warp store whole rows");
    static_assert(sizeof(Stage) >= THREADS / 32 * 16 * (WN + Of::PAD) * sizeof(Sum), "a stage has room for 16 rows");
    Sum *room = reinterpret_cast<Sum *>(&stages[now]) + warp * 16 * (WN + Of::PAD);
    const Matrix<Sum> slab{room, 16, WN, WN + Of::PAD, 1};
    for (int i = 0; i < WM / 16; i++) {
        for (int j = 0; j < WN / Of::COLS; j++)
            Of::store(slab, 0, j * Of::COLS, acc[i][j]);
        __syncwarp();
        for (int n = 0; n < 16 * WIDE; n += 32) {
            const int row = (n + threadIdx.x % 32) / WIDE, col = threadIdx.x % WIDE * SIDE;
            row_at<SIDE>(c(block_row + warp_row + i * 16 + row, block_col + warp_col + col)) =
                row_at<SIDE>(slab(row, col));
        }
        __syncwarp();
    }
}

#if TYPE > 5 // fp32: A and then B are split into two parts before gemm is launched
extern "C" __global__ void split(const float *X, Element *parts, int rows, int cols)
{
    split_row(X, parts, rows, cols);
}
#endif

#if COPY == 2 // tiles come by TMA: see "A tile by one thread"
#include "by_tma.cuh"
#endif
