// Lesson 12: split K
// New idea: blocks share the K tiles of all tiles of C: as many blocks as fit on the GPU, with equal work.
// Before:   lesson 10, one block per tile of C, however few or many. Now: WORKERS blocks, each with its share.
// Launch:   gemm: grid WORKERS, block (BM/WM)*(BN/WN) warps. Then combine: grid (BM*BN/4/ADDERS, tiles that are cut),
//           block TEAMS * ADDERS. For each launch the host chooses as in lesson 10, and WORKERS, WHOLE and TEAMS.
//           run --type atomics: first clear, grid ceil(M*N/THREADS), block THREADS; then gemm, which adds by atomics.
#include "atomics.cuh"
#include "float4.cuh"
#include "floats.cuh"
#include "matrix.cuh"
#include "slice.cuh"

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
constexpr bool ATOMICS = ADD_BY == 2; // pieces are added to C at once instead of by combine
static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");

// The tiles of C, numbered row by row, and their K tiles. Tiles 0 to cut - 1 may be cut, the others stay whole.
struct Tiles {
    int cols;     // tiles next to each other
    int count;    // tiles in all
    int depth;    // K tiles of a tile
    int cut;      // tiles that may be cut
    int short_by; // what the first K tile, the short one, lacks (lesson 10)

    __device__ Tiles(int M, int N, int K)
    {
        cols = (N + BN - 1) / BN;
        count = (M + BM - 1) / BM * cols;
        depth = (K + BK - 1) / BK;
        cut = count - WHOLE * WORKERS;
        short_by = depth * BK - K;
    }

    // The K tiles of all tiles that may be cut form one line of units, 0 to cut * depth - 1, which the workers share.
    // Where does a worker's share begin? It ends where the next one begins.
    __device__ int begin(int worker) const
    {
        int unit = 0;
        // TODO(1): all units in WORKERS equal shares: where does this worker's share begin?
        return unit;
    }

    // Whose share has this unit?
    __device__ int owner(int unit) const
    {
        int worker = 0;
        // TODO(2): which worker is the last to begin at or before this unit?
        return worker;
    }

    // The first k of a K tile.
    __device__ int first_k(int k_tile) const
    {
        int k = 0;
        // TODO(3): K tile 0 is the short one. Where do the others begin?
        return k;
    }
};

// P has a slot of BM * BN elements per piece, in groups of 4: the first group of threads 0, 1, ..., THREADS - 1 of
// gemm, then the second group of each, and so on. So the groups of neighbouring lanes are contiguous.
__device__ inline float &partial(float *P, int slot, int quad)
{
    return P[slot * BM * BN + quad * 4];
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, float *P, int M, int N, int K, int lda, int ldb, int ldc)
{
    __shared__ __align__(16) float As[2][BK][BM + 4];
    __shared__ __align__(16) float Bs[2][BK][BN + 4];

    const Matrix<const float> a_view{A, M, K, TRANS_A ? 1 : lda, TRANS_A ? lda : 1};
    const Matrix<const float> b_view{B, N, K, TRANS_B ? ldb : 1, TRANS_B ? 1 : ldb};
    const Matrix<float> c{C, M, N, ldc, 1};
    const Tiles tiles(M, N, K);
    const Place mine(threadIdx.x);

    int unit = tiles.begin(blockIdx.x);
    const int end = tiles.begin(blockIdx.x + 1);
    int whole = tiles.cut + blockIdx.x; // my first tile that is not cut

    while (unit < end || whole < tiles.count) {
        // A piece: K tiles `first` to `last` - 1 of one tile of C.
        int tile = whole, first = 0, last = tiles.depth;
        if (unit < end) {
            // TODO(4): which tile and K tile is `unit`? Where does the piece end: with my share or with the tile?
            unit += last - first;
        } else {
            whole += WORKERS;
        }

        // Walk along K, from K tile `first` on, as in lesson 10.
        const int block_row = tile / tiles.cols * BM;
        const int block_col = tile % tiles.cols * BN;
        float acc[TM][TN] = {};
        Operand<BM, THREADS, WIDTH_A, !TRANS_A> a(a_view, block_row, tiles.first_k(first));
        Operand<BN, THREADS, WIDTH_B, TRANS_B> b(b_view, block_col, tiles.first_k(first));
        a.fetch(first == 0 ? BK - tiles.short_by : BK);
        b.fetch(first == 0 ? BK - tiles.short_by : BK);
        __syncthreads(); // the buffers of the last piece are free
        add_products(acc, a, b, As, Bs, mine, first, last);

        // A whole tile goes to C. A piece goes to P, for combine, or is added to C by atomics.
        if (!ATOMICS && last - first < tiles.depth) {
            // TODO(5): which slot of P is mine alone? Store acc there by `partial`, 4 columns at a time.
            continue;
        }
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j += WIDTH_C) {
                const int row = block_row + mine.row(i);
                const int col = block_col + mine.col(j);
                if (row < M && col < N) {
                    if (!ATOMICS || last - first == tiles.depth)
                        floats_at<WIDTH_C>(c(row, col)) = floats_at<WIDTH_C>(acc[i][j]);
                    else
                        atomic_add<WIDTH_C>(c(row, col), acc[i][j]);
                }
            }
    }
}

// C = the sum of all pieces of tile blockIdx.y, if it was cut. TEAMS of ADDERS threads, 4 columns per thread: each team
// adds some of the pieces in order, and the first team adds the sums of the teams.
extern "C" __global__ void __launch_bounds__(TEAMS *ADDERS)
combine(float *P, float *C, int M, int N, int K, int ldc)
{
    const Tiles tiles(M, N, K);
    const int tile = blockIdx.y;
    const int team = threadIdx.x / ADDERS;
    const int member = threadIdx.x % ADDERS;
    const int quad = blockIdx.x * ADDERS + member;

    // Which worker has the tile's first K tile, and which the last?
    const int from = tiles.owner(tile * tiles.depth);
    const int to = tiles.owner((tile + 1) * tiles.depth - 1);
    if (from == to)
        return; // it was not cut, so it is in C already

    // My team's pieces: those of workers `first` to `last` - 1.
    const int first = from + (to + 1 - from) * team / TEAMS;
    const int last = from + (to + 1 - from) * (team + 1) / TEAMS;
    Floats<4> sum = {};
#pragma unroll 16
    for (int worker = first; worker < last; worker++) {
        // TODO(6): where is this worker's piece? Add my 4 elements of it to sum.
    }

    if constexpr (TEAMS > 1) {
        __shared__ Floats<4> sums[TEAMS][ADDERS];
        sums[team][member] = sum;
        __syncthreads();
        if (team > 0)
            return;
        for (int t = 1; t < TEAMS; t++)
            for (int e = 0; e < 4; e++)
                sum.at[e] += sums[t][member].at[e];
    }

    // Which elements are these? Thread `quad % THREADS` of gemm has stored them.
    const Matrix<float> c{C, M, N, ldc, 1};
    const Place place(quad % THREADS);
    const int i = quad / THREADS * 4 / TN;
    const int j = quad / THREADS * 4 % TN;
    const int row = tile / tiles.cols * BM + place.row(i);
    for (int e = 0; e < 4; e += WIDTH_C) {
        const int col = tile % tiles.cols * BN + place.col(j) + e;
        if (row < M && col < N)
            floats_at<WIDTH_C>(c(row, col)) = floats_at<WIDTH_C>(sum.at[e]);
    }
}

// Atomics add to C, so it must be 0 first.
extern "C" __global__ void __launch_bounds__(THREADS)
clear(float *C, int M, int N, int ldc)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < M * N)
        C[i / N * ldc + i % N] = 0.0f;
}
