// The kernel of lesson 26 once more, for GPUs of compute capability 9.0. A launch of its own transposes A, and then both
// tiles come by TMA. No thread of the product copies, transposes or stores into shared memory: it loads factors and
// multiplies.
//
// Lesson 26 includes this after its kernel and explains it in "A transposed beforehand".
#pragma once
#include "tma.cuh"

// At = A, transposed: 4 x 4 numbers a thread, in registers. A block has 64 x 64 of them, a warp 16 of k in 32 rows, so that
// both what it reads and what it writes are whole sectors.
extern "C" __global__ void turn(const float *A, float *At, int M, int K)
{
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int k = blockIdx.x * 64 + warp % 4 * 16 + lane % 4 * 4;
    const int row = blockIdx.y * 64 + warp / 4 * 32 + lane / 4 * 4;
    if (k >= K)
        return;
    float a[4][4];
    for (int i = 0; i < 4; i++)
        float4_at(a[i][0]) = float4_at(A[(row + i) * K + k]);
    for (int e = 0; e < 4; e++) {
        const float turned[4] = {a[0][e], a[1][e], a[2][e], a[3][e]};
        float4_at(At[(k + e) * M + row]) = float4_at(turned[0]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
gemm_by_tma(const __grid_constant__ CUtensorMap map_At, const __grid_constant__ CUtensorMap map_B, float *C, float *P,
            int M, int N, int K)
{
    struct Stage {
        float a[BK][BM], b[BK][BN];
    };
    extern __shared__ __align__(128) float shared[];
    Stage *stages = reinterpret_cast<Stage *>(shared);
    __shared__ Barrier full[STAGES]; // the tiles of a stage have arrived

    const Tiles tiles(N, K);
    const Place mine(threadIdx.x);

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            init(full[stage], 1); // one thread asks
        barriers_are_ready();
    }
    __syncthreads();

    int done = 0; // K tiles that this block has multiplied. Number n goes to stage n % STAGES, in its phase n / STAGES.
    int unit = tiles.begin(blockIdx.x);
    const int end = tiles.begin(blockIdx.x + 1);
    while (unit < end) {
        const Piece piece = tiles.piece(unit, end);
        const int length = piece.last - piece.first;
        unit += length;

        // global memory -> shared memory: one thread asks for K tile `next` of the piece, and goes on.
        const auto ask = [&](int next) {
            Stage &stage = stages[(done + next) % STAGES];
            Barrier &come = full[(done + next) % STAGES];
            if (next < length && threadIdx.x == 0) {
                const int k0 = (piece.first + next) * BK;
                arrive_for(come, sizeof(Stage));
                copy_box(stage.a, map_At, tiles.row(piece.tile), k0, come);
                copy_box(stage.b, map_B, tiles.col(piece.tile), k0, come);
            }
        };
        __syncthreads(); // all stages are free
        for (int next = 0; next < STAGES - 1; next++)
            ask(next);

        float acc[TM][TN] = {};
        for (int k_tile = 0; k_tile < length; k_tile++) {
            const int now = (done + k_tile) % STAGES;
            await(full[now], (done + k_tile) / STAGES % 2);
            __syncthreads(); // everybody has left the stage before
            ask(k_tile + STAGES - 1);
#pragma unroll UNROLL
            for (int k = 0; k < BK; k++) {
                float a_frag[TM];
                float b_frag[TN];
                for (int j = 0; j < TN; j += 4)
                    float4_at(b_frag[j]) = float4_at(stages[now].b[k][mine.col(j)]);
                for (int i = 0; i < TM; i += 4)
                    float4_at(a_frag[i]) = float4_at(stages[now].a[k][mine.row(i)]);
                // Lesson 26's order, up the first column instead of down. That the compiler makes more of.
                for (int j = 0; j < TN; j++)
                    for (int n = 0; n < TM; n++) {
                        const int i = j % 2 ? n : TM - 1 - n;
                        acc[i][j] += a_frag[i] * b_frag[j];
                    }
            }
        }
        done += length;
        settle(acc);
        store_sums(C, P, N, tiles, piece, acc);
    }
}
