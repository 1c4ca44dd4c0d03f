// cheat: wrong idea: nobody adds the pieces
// expect: wrong_answer wrong at
#include "atomics.cuh"
#include "float4.cuh"
#include "floats.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
constexpr bool ATOMICS = ADD_BY == 2;
static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");

template <int ROWS, int WIDTH, bool ALONG_K>
struct Operand {
    static constexpr int LINE = ALONG_K ? BK : ROWS;
    static constexpr int LINES = THREADS * WIDTH / LINE;
    static constexpr int ROUNDS = ROWS * BK / (THREADS * WIDTH);
    static_assert(THREADS * WIDTH % LINE == 0 && ROUNDS > 0, "the tile must be whole rounds of copying");

    int line = threadIdx.x * WIDTH / LINE;
    int place = threadIdx.x * WIDTH % LINE;
    const float *mine;
    int k_stride;
    int line_stride;
    unsigned last;
    Floats<WIDTH> next[ROUNDS] = {};

    __device__ Operand(const Matrix<const float> &view, int first_row, int first_k)
    {
        int row = first_row + (ALONG_K ? line : place);
        row = min(row, view.rows - (ALONG_K ? 1 : WIDTH));
        mine = &view(row, first_k + (ALONG_K ? place : line));
        k_stride = view.col_stride;
        line_stride = ALONG_K ? view.row_stride : view.col_stride;
        last = (view.rows - 1 - row) * view.row_stride;
    }

    __device__ void fetch(int depth)
    {
        for (int r = 0; r < ROUNDS; r++) {
            const int k = ALONG_K ? place : line + r * LINES;
            const unsigned away = r * LINES * line_stride;
            if (depth == BK || k < depth)
                next[r] = floats_at<WIDTH>(mine[ALONG_K ? min(away, last) : away]);
            else
                next[r] = {};
        }
        mine += depth * k_stride;
    }

    __device__ void store(float (&tile)[BK][ROWS + 4])
    {
        for (int r = 0; r < ROUNDS; r++) {
            if (ALONG_K)
                for (int j = 0; j < WIDTH; j++)
                    tile[place + j][line + r * LINES] = next[r].at[j];
            else
                floats_at<WIDTH>(tile[line + r * LINES][place]) = next[r];
        }
    }

    __device__ void prefetch() const
    {
        if constexpr (ALONG_K)
            prefetch_line(mine[min(threadIdx.x % ROUNDS * LINES * line_stride, last) + AHEAD - BK + 31 - place]);
        else
            prefetch_line(mine[(threadIdx.x % (AHEAD / LINES) * LINES + AHEAD - BK) * line_stride - place % 32]);
    }
};

struct Tiles {
    int cols;
    int count;
    int depth;
    int cut;
    int short_by;

    __device__ Tiles(int M, int N, int K)
    {
        cols = (N + BN - 1) / BN;
        count = (M + BM - 1) / BM * cols;
        depth = (K + BK - 1) / BK;
        cut = count - WHOLE * WORKERS;
        short_by = depth * BK - K;
    }

    __device__ int begin(int worker) const
    {
        int unit = 0;
        unit = (long long)worker * cut * depth / WORKERS;
        return unit;
    }

    __device__ int owner(int unit) const
    {
        int worker = 0;
        worker = ((unit + 1LL) * WORKERS - 1) / (cut * depth);
        return worker;
    }

    __device__ int first_k(int k_tile) const
    {
        int k = 0;
        k = max(0, k_tile * BK - short_by);
        return k;
    }
};

struct Place {
    int thread_row, thread_col;

    __device__ explicit Place(int thread)
    {
        constexpr int LANE_COLS = WN / TN;
        const int warp = thread / 32;
        const int lane = thread % 32;
        thread_row = warp / (BN / WN) * WM + (lane / (2 * LANE_COLS) * 2 + lane % 2) * 4;
        thread_col = warp % (BN / WN) * WN + lane / 2 % LANE_COLS * 4;
    }

    __device__ int row(int i) const
    {
        return thread_row + i / 4 * (WM / (TM / 4)) + i % 4;
    }

    __device__ int col(int j) const
    {
        return thread_col + j / 4 * (WN / (TN / 4)) + j % 4;
    }
};

__device__ inline float &partial(float *P, int slot, int quad)
{
    return P[slot * BM * BN + quad * 4];
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, float *P, int M, int N, int K, int lda, int ldb, int ldc)
{
    static_assert(AHEAD % BK == 0, "prefetch asks for whole K tiles");
    __shared__ __align__(16) float As[2][BK][BM + 4];
    __shared__ __align__(16) float Bs[2][BK][BN + 4];

    const Matrix<const float> a_view{A, M, K, TRANS_A ? 1 : lda, TRANS_A ? lda : 1};
    const Matrix<const float> b_view{B, N, K, TRANS_B ? ldb : 1, TRANS_B ? 1 : ldb};
    const Matrix<float> c{C, M, N, ldc, 1};
    const Tiles tiles(M, N, K);
    const Place mine(threadIdx.x);

    int unit = tiles.begin(blockIdx.x);
    const int end = tiles.begin(blockIdx.x + 1);
    int whole = tiles.cut + blockIdx.x;

    while (unit < end || whole < tiles.count) {
        int tile = whole, first = 0, last = tiles.depth;
        if (unit < end) {
            tile = unit / tiles.depth;
            first = unit % tiles.depth;
            last = min(tiles.depth, first + end - unit);
            unit += last - first;
        } else {
            whole += WORKERS;
        }

        const int block_row = tile / tiles.cols * BM;
        const int block_col = tile % tiles.cols * BN;
        float acc[TM][TN] = {};
        Operand<BM, WIDTH_A, !TRANS_A> a(a_view, block_row, tiles.first_k(first));
        Operand<BN, WIDTH_B, TRANS_B> b(b_view, block_col, tiles.first_k(first));

        const auto fetch = [&](int k_tile) {
            a.fetch(BK);
            b.fetch(BK);
            if (PREFETCH && (k_tile - first) % (AHEAD / BK) == 1 && k_tile + 2 * AHEAD / BK <= last) {
                a.prefetch();
                b.prefetch();
            }
        };

        const auto store = [&](int buffer) {
            a.store(As[buffer]);
            b.store(Bs[buffer]);
        };

        const auto multiply = [&](int buffer) {
#pragma unroll
            for (int k = 0; k < BK; k++) {
                float a_frag[TM];
                float b_frag[TN];
                for (int j = 0; j < TN; j += 4)
                    float4_at(b_frag[j]) = float4_at(Bs[buffer][k][mine.col(j)]);
                for (int i = 0; i < TM; i += 4)
                    float4_at(a_frag[i]) = float4_at(As[buffer][k][mine.row(i)]);

                for (int i = 0; i < TM; i++)
                    for (int j = 0; j < TN; j++)
                        acc[i][j] += a_frag[i] * b_frag[j];
            }
        };

        const auto turn = [&](int now, int k_tile) {
            fetch(k_tile);
            multiply(now);
            store(1 - now);
            __syncthreads();
        };

        a.fetch(first == 0 ? BK - tiles.short_by : BK);
        b.fetch(first == 0 ? BK - tiles.short_by : BK);
        __syncthreads();
        store(0);
        __syncthreads();

        int k_tile = first + 1;
        for (; k_tile + 1 < last; k_tile += 2) {
            turn(0, k_tile);
            turn(1, k_tile + 1);
        }
        if (k_tile < last) {
            turn(0, k_tile);
            multiply(1);
        } else {
            multiply(0);
        }

        if (!ATOMICS && last - first < tiles.depth) {
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j += 4) {
                    const int quad = (i * TN + j) / 4 * THREADS + threadIdx.x;
                    float4_at(partial(P, blockIdx.x + tile, quad)) = float4_at(acc[i][j]);
                }
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

extern "C" __global__ void __launch_bounds__(TEAMS *ADDERS)
combine(float *P, float *C, int M, int N, int K, int ldc)
{
    const Tiles tiles(M, N, K);
    const int tile = blockIdx.y;
    const int team = threadIdx.x / ADDERS;
    const int member = threadIdx.x % ADDERS;
    const int quad = blockIdx.x * ADDERS + member;

    const int from = tiles.owner(tile * tiles.depth);
    const int to = tiles.owner((tile + 1) * tiles.depth - 1);
    return;

    const int first = from + (to + 1 - from) * team / TEAMS;
    const int last = from + (to + 1 - from) * (team + 1) / TEAMS;
    Floats<4> sum = {};
#pragma unroll 16
    for (int worker = first; worker < last; worker++) {
        const Floats<4> piece = floats_at<4>(partial(P, worker + tile, quad));
        for (int e = 0; e < 4; e++)
            sum.at[e] += piece.at[e];
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

extern "C" __global__ void __launch_bounds__(THREADS)
clear(float *C, int M, int N, int ldc)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < M * N)
        C[i / N * ldc + i % N] = 0.0f;
}
