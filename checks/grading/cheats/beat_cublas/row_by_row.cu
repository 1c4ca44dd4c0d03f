// cheat: wrong idea: the lesson's copies, and the products as ever, row by row
// expect: gate_missed factors that are kept
#include <cuda_pipeline.h>

#include "float4.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / 2;
    constexpr int A_ROUNDS = BM / A_ROWS * (BK / 8);
    constexpr int B_ROUNDS = BK * BN / 4 / THREADS;
    static_assert(BM % A_ROWS == 0 && BK % 8 == 0, "a_tile must be whole rounds of copying");
    static_assert(BK * BN / 4 % THREADS == 0, "b_tile, too");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    __shared__ __align__(16) float As[2][BK][BM + 4];
    __shared__ __align__(16) float Bs[2][BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    constexpr int LANE_COLS = WN / TN;
    constexpr int ROW_STEP = WM / (TM / 4);
    constexpr int COL_STEP = WN / (TN / 4);
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int lane_row = lane / (2 * LANE_COLS) * 2 + lane % 2;
    const int lane_col = lane / 2 % LANE_COLS;
    const int thread_row = warp / (BN / WN) * WM + lane_row * 4;
    const int thread_col = warp % (BN / WN) * WN + lane_col * 4;

    const int load_row = threadIdx.x / 2;
    const int load_col = threadIdx.x % 2 * 4;
    const Matrix<const float> a_mine = a.tile(block_row + load_row, load_col, BM, K);
    const Matrix<const float> b_tile = b.tile(0, block_col, K, BN);

    float acc[TM][TN] = {};
    float4 a_next[A_ROUNDS];

    const auto fetch = [&](int buffer, int k0) {
#pragma unroll
        for (int r = 0; r < A_ROUNDS; r++)
            a_next[r] = float4_at(a_mine(r / (BK / 8) * A_ROWS, k0 + r % (BK / 8) * 8));
#pragma unroll
        for (int r = 0; r < B_ROUNDS; r++) {
            const int piece = threadIdx.x + r * THREADS;
            const int row = piece / (BN / 4);
            const int col = piece % (BN / 4) * 4;
            __pipeline_memcpy_async(&Bs[buffer][row][col], &b_tile(k0 + row, col), 16);
        }
        __pipeline_commit();

        if (PREFETCH && k0 % AHEAD == 0 && k0 + 2 * AHEAD <= K) {
            prefetch<THREADS>(a.tile(block_row, k0 + AHEAD, BM, AHEAD));
            prefetch<THREADS>(b.tile(k0 + AHEAD, block_col, AHEAD, BN));
        }
    };

    const auto store = [&](int buffer) {
#pragma unroll
        for (int r = 0; r < A_ROUNDS; r++) {
            const int row = load_row + r / (BK / 8) * A_ROWS;
            const int k = load_col + r % (BK / 8) * 8;
            As[buffer][k + 0][row] = a_next[r].x;
            As[buffer][k + 1][row] = a_next[r].y;
            As[buffer][k + 2][row] = a_next[r].z;
            As[buffer][k + 3][row] = a_next[r].w;
        }
        __pipeline_wait_prior(0);
    };

    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            for (int i = 0; i < TM; i += 4)
                float4_at(a_frag[i]) = float4_at(As[buffer][k][thread_row + i / 4 * ROW_STEP]);
            for (int j = 0; j < TN; j += 4)
                float4_at(b_frag[j]) = float4_at(Bs[buffer][k][thread_col + j / 4 * COL_STEP]);

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) {
                    acc[i][j] += a_frag[i] * b_frag[j];
                }
        }
    };

    int now = 0;
    fetch(now, 0);
    store(now);
    __syncthreads();
    for (int k0 = BK; k0 < K; k0 += BK) {
        fetch(1 - now, k0);
        multiply(now);
        store(1 - now);
        __syncthreads();
        now = 1 - now;
    }
    multiply(now);

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = block_row + thread_row + i / 4 * ROW_STEP + i % 4;
            const int col = block_col + thread_col + j / 4 * COL_STEP;
            float4_at(c(row, col)) = float4_at(acc[i][j]);
        }
}
