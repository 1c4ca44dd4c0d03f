// Lesson 16: precision
// New idea: fp32 from tensor cores: split each number into two of a narrower type, and add up three of the four products.
// Before:   lesson 15, the same kernel for float16. Now C is as exact as that of float32.
// Launch:   split for A and for B, 1,024 numbers a block; then gemm with grid (N/BN, M/BM), block (BM/WM)*(BN/WN) warps;
//           BM = BN = 128, BK = 64, WM = 64, WN = 32, STAGES = 3. TYPE chooses among the types of fragments.cuh.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include "fragments.cuh"
#include "matrix.cuh"

// The number of a narrower type that is nearest to x.
__device__ inline void narrow(half &to, float x) { to = __float2half_rn(x); }
__device__ inline void narrow(float &to, float x) // tf32: the first 19 bits
{
    to = __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

// The two parts of a number: big + small is SCALE * x, to 22 bits.
template <typename Number>
__device__ inline void split_number(Number &big, Number &small, float x)
{
    // TODO(1): split SCALE * x into big and small, by `narrow`. What remains for small?
}

// Fragments of float32, made of those of a narrower type: big + small is SCALE times the number.
template <typename Of>
struct Split : Of {
    static constexpr int PARTS = 2, PASSES = 3;
    struct A {
        typename Of::A big, small;
    };
    struct B {
        typename Of::B big, small;
    };
    struct Sums {
        typename Of::Sums tile, all; // of this tile, by the tensor core; and of the tiles before
    };

    // The tile of the small parts follows that of the big ones.
    template <int WIDTH>
    __device__ static void load_a(A &a, const typename Of::Element *tile, int row, int k)
    {
        Of::template load_a<WIDTH>(a.big, tile, row, k);
        Of::template load_a<WIDTH>(a.small, tile + BM * BK, row, k);
    }

    template <int WIDTH>
    __device__ static void load_b(B &b, const typename Of::Element *tile, int k, int col)
    {
        Of::template load_b<WIDTH>(b.big, tile, k, col);
        Of::template load_b<WIDTH>(b.small, tile + BK * BN, k, col);
    }

    // Called with pass 0, 1 and 2.
    __device__ static void multiply_add(Sums &sums, const A &a, const B &b, int pass)
    {
        // TODO(2): Of::multiply_add(sums.tile, ..., ...) adds a part of a times a part of b. Which parts in which pass?
    }

    // Called after each tile of K.
    __device__ static void settle(Sums &sums)
    {
        if (SUMS == 1) // for comparison: the tensor core adds up all tiles
            return;
        float *tile = &sums.tile[0][0], *all = &sums.all[0][0];
        for (int e = 0; e < sizeof(sums.tile) / sizeof(float); e++) {
            // TODO(3): move this tile's sum into that of all tiles.
        }
    }

    __device__ static void store(const Matrix<float> &c, int row, int col, const Sums &sums)
    {
        typename Of::Sums scaled;
        const float *from = SUMS == 1 ? &sums.tile[0][0] : &sums.all[0][0];
        for (int e = 0; e < sizeof(scaled) / sizeof(float); e++) {
            float sum = from[e];
            // TODO(4): how many times too large is it?
            (&scaled[0][0])[e] = sum;
        }
        Of::store(c, row, col, scaled);
    }
};

template <>
struct Fragments<FP32_BY_TF32> : Split<Fragments<TF32>> {};

template <>
struct Fragments<FP32_BY_F16> : Split<Fragments<F16>> {};

using Of = Fragments<TYPE>;
using Element = Of::Element;
using Sum = Of::Sum;

#if TYPE >= 6 // launched for A and for B, before gemm: parts[0] holds the big parts, parts[1] the small ones
extern "C" __global__ void split(const float *X, Element *parts, int rows, int cols)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= rows * cols)
        return;
    const Row<float, 4> x = row_at<4>(X[i]);
    Row<Element, 4> big = {}, small = {};
    for (int e = 0; e < 4; e++)
        split_number(big.at[e], small.at[e], x.at[e]);
    row_at<4>(parts[i]) = big;
    row_at<4>(parts[i + rows * cols]) = small;
}
#endif

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const Element *A, const Element *B, Sum *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int PIECE = 16 / sizeof(Element);    // numbers that one copy takes
    constexpr int A_ROWS = THREADS / (BK / PIECE); // rows of a_tile that the block copies in one iteration
    constexpr int B_ROWS = THREADS / (BN / PIECE); // rows of b_tile
    constexpr int PARTS = Of::PARTS;               // matrices that each of A and B is given as
    constexpr int STEPS = BK / Of::DEPTH;
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "each iteration of the copy moves whole rows");
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
    // columns together, so that the blocks that run at the same time share tiles of A and of B.
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
    const Element *a_from = &a(block_row + load_row_a, load_col_a); // my first pieces; they advance along K
    const Element *b_from = &b(load_row_b, block_col + load_col_b);

    // global memory -> shared memory: starts the copies of the next tile, and does not wait
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

    // Start the copies of the first STAGES - 1 tiles, each a group of its own, as in lesson 14; load the first fragments.
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
    const auto turn = [&](bool more, bool last) { // more: there is a tile STAGES - 1 ahead
        const int next = now == STAGES - 1 ? 0 : now + 1;
        const int before = now == 0 ? STAGES - 1 : now - 1; // holds the tile before this one
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            // The next step's fragments. In the last step they are those of the next tile, which must have arrived.
            if (step < STEPS - 1) {
                load((step + 1) % 2, now, step + 1);
            } else if (!last) {
                __pipeline_wait_prior(STAGES - 2);
                __syncthreads();
                load(0, next, 0);
            }
            // All warps have passed that barrier, so no warp reads the tile before this one any more.
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
        turn(true, false); // a copy of the loop without the test for `more`; with three passes it gains nothing
    while (k0 + BK < K)
        turn(k0 + (STAGES - 1) * BK < K, false);
    turn(false, true);

    // Write my elements back: 16 rows at a time through a stage that is no longer read, so that the lanes of a warp
    // store 16 bytes each, consecutive in whole rows of its tile.
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

#if COPY == 2 // tiles come by TMA: see lesson 15
#include "other_lanes.cuh"
#include "by_tma.cuh"
#endif
