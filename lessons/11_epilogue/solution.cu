// Lesson 11: epilogue
// New idea: an object decides what happens to a product before it is stored; the main loop does not know it.
// Before:   lesson 10 stores A B. Anything more needs a second kernel, which reads C and writes it again.
// Now:      C = relu(alpha * A B + beta * C + bias), while the products are still in registers.
// Launch:   as in lesson 10.
#include "any_shape.cuh"
#include "float4.cuh"
#include "floats.cuh"
#include "matrix.cuh"

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;

// Epilogues. enter(col) announces the next WIDTH_C columns of C. Then the epilogue is called once per row, with the
// products of those columns and the old elements of C, or nullptr if C is not read. It returns what to store.

// alpha * x + beta * old
struct Scale {
    float alpha;
    float beta;

    // If beta is 0, C is not read: it may hold anything, NaN included.
    __device__ bool reads_c() const
    {
        return beta != 0.0f;
    }

    __device__ void enter(int col) {}

    __device__ Floats<WIDTH_C> operator()(Floats<WIDTH_C> x, const Floats<WIDTH_C> *old) const
    {
        for (int j = 0; j < WIDTH_C; j++) {
            // (1) The old C counts only if it was read.
            x.at[j] *= alpha;
            if (old)
                x.at[j] += beta * old->at[j];
        }
        return x;
    }
};

// The result of Inner plus one value per column.
template <typename Inner>
struct AddBias {
    Inner inner;
    const float *bias;
    Floats<WIDTH_C> mine; // bias of the current columns

    __device__ bool reads_c() const
    {
        return inner.reads_c();
    }

    __device__ void enter(int col)
    {
        inner.enter(col);
        // (2) One access for all rows.
        mine = floats_at<WIDTH_C>(bias[col]);
    }

    __device__ Floats<WIDTH_C> operator()(Floats<WIDTH_C> x, const Floats<WIDTH_C> *old) const
    {
        x = inner(x, old);
        for (int j = 0; j < WIDTH_C; j++) {
            // (3) enter has loaded it.
            x.at[j] += mine.at[j];
        }
        return x;
    }
};

// The result of Inner, with 0 in place of negative values.
template <typename Inner>
struct Relu {
    Inner inner;

    __device__ bool reads_c() const
    {
        return inner.reads_c();
    }

    __device__ void enter(int col)
    {
        inner.enter(col);
    }

    __device__ Floats<WIDTH_C> operator()(Floats<WIDTH_C> x, const Floats<WIDTH_C> *old) const
    {
        x = inner(x, old);
        // (4) max is one instruction.
        for (int j = 0; j < WIDTH_C; j++)
            x.at[j] = max(x.at[j], 0.0f);
        return x;
    }
};

// Lesson 10's kernel, both operands as rows x K. The epilogue decides what is stored.
template <typename Epilogue>
__device__ void multiply_matrices(const Matrix<const float> &a_view, const Matrix<const float> &b_view,
                                  const Matrix<float> &c, Epilogue epilogue)
{
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    static_assert(AHEAD % 32 == 0, "prefetch asks for whole lines");
    __shared__ __align__(16) float As[2][BK][BM + 4];
    __shared__ __align__(16) float Bs[2][BK][BN + 4];

    // Which elements of C are mine? TM x TN of my warp's tile, in pieces of 4 x 4.
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

    // Walk along K, one tile at a time.
    float acc[TM][TN] = {};
    Operand<BM, THREADS, WIDTH_A, !TRANS_A, DIRECT_A> a(a_view, block_row);
    Operand<BN, THREADS, WIDTH_B, TRANS_B, DIRECT_B> b(b_view, block_col);
    const int K = a_view.cols;
    const int depth = (K - 1) % BK + 1; // of the first tile: it takes the remainder

    const auto fetch = [&](int buffer, int k0) {
        a.fetch(As[buffer], BK);
        b.fetch(Bs[buffer], BK);
        if (PREFETCH && (k0 - depth) % AHEAD == 0 && k0 + 2 * AHEAD <= K) {
            a.prefetch();
            b.prefetch();
        }
    };

    const auto store = [&](int buffer) {
        a.store(As[buffer]);
        b.store(Bs[buffer]);
        if (DIRECT_A || DIRECT_B)
            copies_are_done();
    };

    // shared memory -> products
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            for (int j = 0; j < TN; j += 4)
                float4_at(b_frag[j]) = float4_at(Bs[buffer][k][thread_col + j / 4 * COL_STEP]);
            for (int i = 0; i < TM; i += 4)
                float4_at(a_frag[i]) = float4_at(As[buffer][k][thread_row + i / 4 * ROW_STEP]);

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
    };

    // One iteration: multiply the tile in buffer `now` while the tile at k0 is in flight to the other buffer.
    const auto turn = [&](int now, int k0) {
        fetch(1 - now, k0);
        multiply(now);
        store(1 - now);
        __syncthreads();
    };

    a.fetch(As[0], depth);
    b.fetch(Bs[0], depth);
    store(0);
    __syncthreads();

    // Two iterations at a time, so that buffer indices are constants.
    int k0 = depth;
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

    // Write my elements back, WIDTH_C columns at a time.
    const auto row_of = [&](int i) { return block_row + thread_row + i / 4 * ROW_STEP + i % 4; };
    for (int j = 0; j < TN; j += WIDTH_C) {
        const int col = block_col + thread_col + j / 4 * COL_STEP + j % 4;
        if (col >= c.cols)
            continue;
        epilogue.enter(col);
        const auto store_row = [&](int i, const Floats<WIDTH_C> &products, const Floats<WIDTH_C> *old) {
            // (5) The only call of the epilogue.
            if (row_of(i) < c.rows)
                floats_at<WIDTH_C>(c(row_of(i), col)) = epilogue(products, old);
        };
        if (epilogue.reads_c()) {
            Floats<WIDTH_C> old[TM] = {};
            // (6) Read all rows before the first store, so that the loads are in flight together.
            for (int i = 0; i < TM; i++)
                if (row_of(i) < c.rows)
                    old[i] = floats_at<WIDTH_C>(c(row_of(i), col));
            for (int i = 0; i < TM; i++)
                store_row(i, floats_at<WIDTH_C>(acc[i][j]), &old[i]);
        } else {
            for (int i = 0; i < TM; i++)
                store_row(i, floats_at<WIDTH_C>(acc[i][j]), nullptr);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, const float *bias, int M, int N, int K, int lda, int ldb, int ldc,
     float alpha, float beta)
{
    const Matrix<const float> a_view{A, M, K, TRANS_A ? 1 : lda, TRANS_A ? lda : 1};
    const Matrix<const float> b_view{B, N, K, TRANS_B ? ldb : 1, TRANS_B ? 1 : ldb};
    const Matrix<float> c{C, M, N, ldc, 1};
    multiply_matrices(a_view, b_view, c, Relu<AddBias<Scale>>{{{alpha, beta}, bias}});
}
