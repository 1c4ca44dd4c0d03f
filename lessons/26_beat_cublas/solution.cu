// Lesson 26: beat cuBLAS
// New idea: the register file is the limit; take the products there and back, so that each reads two registers.
// Before:   lessons 09 and 12. Now: 8 x 16 sums for a thread, there and back; A transposed 4 x 4 at a time, B by cp.async.
// Launch:   gemm: grid WHOLE + WORKERS, block (BM/WM)*(BN/WN) warps. Then combine: grid (BM*BN/4/ADDERS, tiles that are
//           cut), block ADDERS. For each launch the host chooses WHOLE, CUT and WORKERS, as in lesson 12.
#include <cuda_pipeline.h>

#include "float4.cuh"
#include "matrix.cuh"
#include "workers.cuh"

// An addition may read one register and write another. So only from here on are the sums where the stores need them.
__device__ inline void settle(float (&acc)[TM][TN])
{
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            acc[i][j] += 0.0f;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, float *P, int M, int N, int K)
{
    constexpr int GROUPS = BM / 4;                       // of 4 rows of A's tile
    constexpr int AT_ONCE = THREADS / 2 / GROUPS * 8;    // of k, that the block copies in one iteration
    constexpr int A_ROUNDS = BK / AT_ONCE;               // iterations until a_tile is complete, 4 x 4 numbers a thread
    constexpr int B_ROUNDS = BK * BN / 4 / THREADS;      // the same for b_tile, 4 numbers a thread
    static_assert(THREADS / 2 % GROUPS == 0 && BK % AT_ONCE == 0, "each iteration of the copy moves whole parts of a_tile");
    static_assert(BK * BN / 4 % THREADS == 0, "b_tile, too");
    extern __shared__ __align__(128) float shared[];
    auto &As = reinterpret_cast<float(&)[2][BK][BM + 4]>(shared[0]);
    auto &Bs = reinterpret_cast<float(&)[2][BK][BN]>(shared[2 * BK * (BM + 4)]);

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Tiles tiles(N, K);
    const Place mine(threadIdx.x);

    // Which numbers of A do I copy? 4 of k, in 4 rows. Two threads take the 32 bytes of a row that are a sector.
    const int load_row = threadIdx.x / 2 % GROUPS * 4;
    const int load_k = threadIdx.x / 2 / GROUPS * 8 + threadIdx.x % 2 * 4;

    int unit = tiles.begin(blockIdx.x);
    const int end = tiles.begin(blockIdx.x + 1);
    while (unit < end) {
        const Piece piece = tiles.piece(unit, end);
        unit += piece.last - piece.first;
        const Matrix<const float> a_mine = a.tile(tiles.row(piece.tile) + load_row, load_k, 4, K);
        const Matrix<const float> b_tile = b.tile(0, tiles.col(piece.tile), K, BN);

        float acc[TM][TN] = {};
        float a_next[A_ROUNDS][4][4]; // [row][k]

        // global memory -> registers, for A
        const auto fetch_a = [&](int k0) {
            for (int r = 0; r < A_ROUNDS; r++)
                for (int i = 0; i < 4; i++)
                    float4_at(a_next[r][i][0]) = float4_at(a_mine(i, k0 + r * AT_ONCE));
        };

        // global memory -> shared memory, for B. Without waiting.
        const auto fetch_b = [&](int buffer, int k0) {
            // (1) B keeps its layout, so it needs no registers.
            for (int r = 0; r < B_ROUNDS; r++) {
                const int quad = threadIdx.x + r * THREADS;
                const int row = quad / (BN / 4);
                const int col = quad % (BN / 4) * 4;
                __pipeline_memcpy_async(&Bs[buffer][row][col], &b_tile(k0 + row, col), 16);
            }
            __pipeline_commit();
        };

        // registers -> shared memory, for A
        const auto store_a = [&](int buffer) {
            for (int r = 0; r < A_ROUNDS; r++)
                for (int e = 0; e < 4; e++) {
                    // (2) One k of my 4 rows: 4 numbers that are neighbours in As.
                    const float turned[4] = {a_next[r][0][e], a_next[r][1][e], a_next[r][2][e], a_next[r][3][e]};
                    float4_at(As[buffer][load_k + r * AT_ONCE + e][load_row]) = float4_at(turned[0]);
                }
        };

        // shared memory -> products
        const auto multiply = [&](int buffer) {
#pragma unroll UNROLL
            for (int k = 0; k < BK; k++) {
                float a_frag[TM];
                float b_frag[TN];
                for (int j = 0; j < TN; j += 4)
                    float4_at(b_frag[j]) = float4_at(Bs[buffer][k][mine.col(j)]);
                for (int i = 0; i < TM; i += 4)
                    float4_at(a_frag[i]) = float4_at(As[buffer][k][mine.row(i)]);

                // (3) Column by column, down and up again: from one product to the next only one factor changes.
                for (int j = 0; j < TN; j++)
                    for (int n = 0; n < TM; n++) {
                        const int i = j % 2 ? TM - 1 - n : n;
                        acc[i][j] += a_frag[i] * b_frag[j];
                    }
            }
        };

        // Walk along K, one K tile at a time.
        int now = 0;
        fetch_a(piece.first * BK);
        __syncthreads(); // the buffers of the last piece are free
        fetch_b(now, piece.first * BK);
        store_a(now);
        for (int k_tile = piece.first + 1; k_tile < piece.last; k_tile++) {
            fetch_a(k_tile * BK);
            __pipeline_wait_prior(0);
            __syncthreads(); // the K tile in buffer `now` has arrived, and no thread reads the other buffer
            fetch_b(1 - now, k_tile * BK);
            multiply(now);
            store_a(1 - now);
            now = 1 - now;
        }
        __pipeline_wait_prior(0);
        __syncthreads();
        // (4) The last K tile of the piece.
        multiply(now);

        settle(acc);
        store_sums(C, P, N, tiles, piece, acc);
    }
}

// C = the sum of all pieces, for each tile that was cut (lesson 12).
extern "C" __global__ void __launch_bounds__(ADDERS) combine(float *P, float *C, int M, int N, int K)
{
    add_pieces(P, C, N, K);
}

#if COPY == 2 // a launch of its own transposes A, and tiles arrive by TMA: see the appendix
#include "turned.cuh"
#endif
