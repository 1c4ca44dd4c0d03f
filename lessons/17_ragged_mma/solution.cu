// Lesson 17: ragged mma
// New idea: only the copy knows edges, layouts and alignment. It fills whole tiles, with zeros where a matrix ends.
// Before:   lesson 15, whole tiles of row-major A and B; lessons 10 and 11, every shape without tensor cores.
// Now:      C = relu(A B + bias) for any M, N, K, any leading dimension, NN NT TN TT; C is float16 or float32.
// Launch:   grid (ceil(N/BN), ceil(M/BM)), block (BM/WM)*(BN/WN) warps; tiles, stages and bands of lesson 15. For each
//           launch the host chooses TRANS_A TRANS_B, SHIFTED_A SHIFTED_B (lines begin anywhere) and WIDTH_C (numbers of
//           C that one store takes).
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include "matrix.cuh"
#include "pieces.cuh"
#include "row.cuh"

#if BYTES_C == 2
using Number = half; // of C
#else
using Number = float;
#endif

constexpr int PIECE = 8; // halves in 16 bytes
constexpr int PARTS = BK / 16; // steps of 16 k in a tile; each copies and straightens a part of others
constexpr int WARPS = (BM / WM) * (BN / WN);

// Copies tiles of SIZE rows of A, or columns of B, and BK of k. A line is contiguous in memory: it has BK of k if
// ALONG_K, otherwise SIZE rows or columns of one k. TRANS: the operand is stored transposed.
// SHIFTED: lines may begin anywhere. Then a tile gets the pieces that hold a line, one more than the line has.
template <int SIZE, bool TRANS, bool ALONG_K, bool SHIFTED>
struct Operand {
    static constexpr int LINES = ALONG_K ? SIZE : BK;
    static constexpr int LENGTH = ALONG_K ? BK : SIZE;
    static constexpr int PITCH = LENGTH + (SHIFTED ? PIECE : 0); // halves from one line of a tile to the next
    static constexpr int LANES = LENGTH / PIECE;                 // that copy a line together
    static constexpr int STEP = WARPS * (32 / LANES);            // lines that the block copies in one iteration
    static_assert(WARPS == 8, "a warp has every eighth line: the same shift and the same swizzle in each");
    static_assert(LENGTH % 64 == 0 && LANES <= 32 && LINES % (PARTS * STEP) == 0, "a tile must be PARTS times whole rounds of copying");
    using Tile = half[LINES * PITCH];

    const half *matrix;
    int from;         // index of my piece in the first line that I copy of the next tile
    int stride;       // halves from one line to the next in memory
    int line, col;    // of my piece in the tile
    int shift;        // halves of the first piece before my lines begin
    int lines;        // of the matrix, from my first one on
    int halves;       // of a line of the matrix, from my piece on

    // Where half `col` of a line is in a tile. Pieces are swizzled as in lesson 15, or there is one more in each line.
    __device__ static unsigned at(unsigned line, unsigned col)
    {
        return line * PITCH + (SHIFTED ? col : (col / PIECE ^ line % 8) * PIECE + col % PIECE);
    }

    // size: M or N. first: the block's first row of A, or column of B.
    __device__ Operand(const half *matrix, int size, int K, int stride, int first)
        : matrix(matrix), stride(stride)
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        line = warp + lane / LANES * WARPS;
        col = lane % LANES * PIECE;
        shift = SHIFTED ? warp * stride % PIECE : 0;
        lines = (ALONG_K ? size - first : K) - line;
        halves = (ALONG_K ? K : size - first) - col + shift;
        from = ((ALONG_K ? first : 0) + line) * stride + (ALONG_K ? 0 : first) + col - shift;
    }

    // Starts the copies of part `part` of the next tile. After the last part, steps on by BK of k.
    __device__ void copy(half *tile, int part)
    {
        const auto there = [&](int line, int col) { // halves of a piece, `line` and `col` further than my first
            int count = 0;
            // (1) A piece ends where its line ends, and is empty where the matrix has no such line.
            if (line < lines)
                count = min(max(halves - col, 0), PIECE);
            return count;
        };
        half *to = tile + at(line, col);
        const half *first = matrix + from;
        for (int r = part * LINES / PARTS; r < (part + 1) * LINES / PARTS; r += STEP) {
            copy_piece(to + r * PITCH, first + r * stride, there(r, 0));
            if (SHIFTED && col == LENGTH - PIECE) // the last lane of a line: one piece more
                copy_piece(to + r * PITCH + PIECE, first + r * stride + PIECE, there(r, PIECE));
        }
        if (part == PARTS - 1) {
            (ALONG_K ? halves : lines) -= BK;
            from += ALONG_K ? BK : BK * stride;
        }
    }

    // Moves the halves of my warp's lines to the beginning of the line: those of one of PARTS parts of the tile. The
    // warp copied these lines itself, so no other warp is involved.
    __device__ void straighten(half *tile, int part) const
    {
        constexpr int ROUNDS = LINES / WARPS / PARTS, WORDS = LENGTH / 64; // a lane has a word of 32
        unsigned words[ROUNDS][WORDS] = {};
        half *mine = tile + at(threadIdx.x / 32, threadIdx.x % 32 * 2);
        const auto word = [&](int r, int w, int halves) -> unsigned & { // my word, or one an even number of halves further
            return reinterpret_cast<unsigned &>(mine[(part * ROUNDS + r) * WARPS * PITCH + w * 64 + halves]);
        };
        for (int r = 0; r < ROUNDS; r++)
            for (int w = 0; w < WORDS; w++) {
                // (2) Two neighbours, from which the low or the middle 32 bits are taken.
                const int even = shift / 2 * 2;
                words[r][w] = __funnelshift_r(word(r, w, even), word(r, w, even + 2), shift % 2 * 16);
            }
        __syncwarp(); // all have read
        for (int r = 0; r < ROUNDS; r++)
            for (int w = 0; w < WORDS; w++)
                word(r, w, 0) = words[r][w];
    }

    // A fragment of 16 rows of A, or columns of B, from `first` on, and of 16 k.
    template <typename Fragment>
    __device__ static void load(Fragment &to, const half *tile, int first, int k)
    {
        const int lane = threadIdx.x % 32;
        int line = ALONG_K ? first : k, col = ALONG_K ? k : first;
        // (3) As in lesson 15. Stored transposed, the second and the third of the four matrices change places, and so
        // do ldmatrix and ldmatrix_trans.
        line += TRANS ? lane / 16 * 8 + lane % 8 : lane % 16;
        col += TRANS ? lane / 8 % 2 * 8 : lane / 16 * 8;
        if (ALONG_K)
            load_pieces(to, tile + at(line, col));
        else
            load_pieces_trans(to, tile + at(line, col));
    }
};

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS_PER_SM)
gemm(const half *A, const half *B, Number *C, const Number *bias, int M, int N, int K, int lda, int ldb, int ldc)
{
    using OfA = Operand<BM, TRANS_A, !TRANS_A, SHIFTED_A>;
    using OfB = Operand<BN, TRANS_B, TRANS_B, SHIFTED_B>;
    struct Stage {
        OfA::Tile a;
        OfB::Tile b;
    };
    extern __shared__ __align__(128) unsigned char shared[];
    Stage *stages = reinterpret_cast<Stage *>(shared);

    // Which tile of C is my block's, and which my warp's? As in lesson 15.
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int band = number / (BAND * gridDim.x) * BAND;
    const int rows = min(BAND, gridDim.y - band);
    const int block_row = (band + number % (BAND * gridDim.x) % rows) * BM;
    const int block_col = number % (BAND * gridDim.x) / rows * BN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;

    // global memory -> shared memory
    OfA a(A, M, K, lda, block_row);
    OfB b(B, N, K, ldb, block_col);
    const auto copy = [&](int stage, int part) {
        a.copy(stages[stage].a, part);
        b.copy(stages[stage].b, part);
    };
    const auto straighten = [&](int stage, int part) {
        if constexpr (SHIFTED_A)
            a.straighten(stages[stage].a, part);
        if constexpr (SHIFTED_B)
            b.straighten(stages[stage].b, part);
    };

    // shared memory -> registers -> products: nothing here knows of edges, layouts or shifts
    unsigned a_frag[2][WM / 16][4] = {};
    unsigned b_frag[2][WN / 16][2][2] = {};
    const auto load = [&](int set, int stage, int step) {
        for (int i = 0; i < WM / 16; i++)
            OfA::load(a_frag[set][i], stages[stage].a, warp_row + i * 16, step * 16);
        for (int j = 0; j < WN / 16; j++)
            OfB::load(b_frag[set][j], stages[stage].b, warp_col + j * 16, step * 16);
    };
    float acc[WM / 16][WN / 16][2][4] = {};
    const auto multiply = [&](int set) {
        for (int i = 0; i < WM / 16; i++)
            for (int j = 0; j < WN / 16; j++)
                for (int w = 0; w < 2; w++)
                    mma_f16(acc[i][j][w], a_frag[set][i], b_frag[set][j][w]);
    };

    for (int stage = 0; stage < STAGES - 1; stage++) {
        for (int part = 0; part < PARTS && stage * BK < K; part++)
            copy(stage, part);
        __pipeline_commit();
    }
    __pipeline_wait_prior(STAGES - 2);
    __syncwarp();
    for (int part = 0; part < PARTS; part++)
        straighten(0, part);
    __syncthreads();
    load(0, 0, 0);

    // Walk along K, one tile at a time, as in lesson 15. While a tile is multiplied, the next one is straightened.
    int now = 0;
    int k0 = 0;
    const auto turn = [&](bool more, bool last) {
        const int next = now == STAGES - 1 ? 0 : now + 1;
        const int before = now == 0 ? STAGES - 1 : now - 1;
#pragma unroll
        for (int step = 0; step < PARTS; step++) {
            if (step == 0 && !last) {
                __pipeline_wait_prior(STAGES - 3); // my copies of the next tile ...
                __syncwarp();                      // ... and those of my warp
            }
            if (!last)
                straighten(next, step);
            if (step < PARTS - 1) {
                load((step + 1) % 2, now, step + 1);
            } else if (!last) {
                __syncthreads();
                load(0, next, 0);
            }
            if (more)
                copy(before, step);
            if (step == PARTS - 1)
                __pipeline_commit();
            multiply(step % 2);
        }
        now = next;
        k0 += BK;
    };
    while (k0 + (STAGES - 1) * BK < K)
        turn(true, false);
    while (k0 + BK < K)
        turn(false, false);
    turn(false, true);

    // Write my elements back, 16 rows at a time through a stage that is no longer read, WIDTH_C columns a lane.
    constexpr int PITCH = WN + 8; // floats from row to row: no conflicts
    constexpr int ACROSS = WN / WIDTH_C < 32 ? WN / WIDTH_C : 32; // lanes that store to one row
    constexpr int DOWN = 32 / ACROSS;                             // rows that a warp stores at once
    static_assert(sizeof(Stage) >= WARPS * 16 * PITCH * sizeof(float), "a stage has room for 16 rows of each warp");
    const Matrix<float> slab{reinterpret_cast<float *>(&stages[now]) + warp * 16 * PITCH, 16, WN, PITCH, 1};
#pragma unroll
    for (int i = 0; i < WM / 16; i++) {
        for (int j = 0; j < WN / 16; j++)
            for (int w = 0; w < 2; w++)
                for (int h = 0; h < 2; h++)
                    row_at<2>(slab(8 * h + lane / 4, j * 16 + 8 * w + lane % 4 * 2)) =
                        Row<float, 2>{acc[i][j][w][2 * h], acc[i][j][w][2 * h + 1]};
        __syncwarp();
        for (int x = lane % ACROSS * WIDTH_C; x < WN; x += ACROSS * WIDTH_C)
            for (int y = lane / ACROSS; y < 16; y += DOWN) {
                const int row = block_row + warp_row + i * 16 + y, col = block_col + warp_col + x;
                const Row<float, WIDTH_C> sums = row_at<WIDTH_C>(slab(y, x));
                Row<Number, WIDTH_C> out = {};
                // (4) Nothing but this store has a guard. N is a multiple of WIDTH_C.
                if (row < M && col < N) {
                    const Row<Number, WIDTH_C> mine = row_at<WIDTH_C>(bias[col]);
                    for (int e = 0; e < WIDTH_C; e++)
                        out.at[e] = Number(max(sums.at[e] + float(mine.at[e]), 0.0f));
                    row_at<WIDTH_C>(C[(size_t)row * ldc + col]) = out;
                }
            }
        __syncwarp();
    }
}
