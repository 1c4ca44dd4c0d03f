// Lesson 20: persistent blocks
// New idea: a block computes several tiles of C. The next tile's copies run while this one is stored, by TMA.
// Before:   lesson 19, a block for each tile: it waits for its first copies, and its threads store C.
// Launch:   grid BLOCKS (as many as fit, from lesson.toml), block CONSUMERS * 128 + 32; BM = 128, BN = 256, BK = 64,
//           STAGES = 4, CONSUMERS = 2 warpgroups. BAND rows of tiles go through the columns of B together.
#include <cuda_bf16.h>

#include "tma_store.cuh"
#include "wgmma.cuh"

constexpr int ROW = 128;                           // bytes in a row of a box: the width of the swizzle
constexpr int EIGHT = 8 * ROW;                     // bytes in eight rows, after which the swizzle repeats
constexpr int STRIP = ROW / sizeof(__nv_bfloat16); // columns of B, or of C, in a box
constexpr int PIECE = 16 / sizeof(__nv_bfloat16);  // columns that the swizzle keeps together
constexpr int DEPTH = 16;                          // k of a product
constexpr int ROWS = 64;                           // rows of A in a product, and of C in a consumer
constexpr int GROUP = 128;                         // threads in a warpgroup

// Where a tile is and how it is stored. `strip`: bytes from 64 columns to the next 64; `eight`: from eight rows to the
// next eight.
__device__ inline unsigned long long descriptor(const void *tile, unsigned strip, unsigned eight)
{
    unsigned long long bits = 0;
    bits |= __cvta_generic_to_shared(tile) / 16;
    bits |= (unsigned long long)(strip / 16) << 16;
    bits |= (unsigned long long)(eight / 16) << 32;
    bits |= 1ull << 62;
    return bits;
}

// The first element of tile `number` of C. Tiles of BAND rows go through the columns together, as in lesson 18.
struct Corner {
    int row, col;
};
__device__ inline Corner corner(int number, int M, int N)
{
    const int cols = N / BN;
    const int band = number / (BAND * cols) * BAND;
    const int rows = min(BAND, M / BM - band);
    return {(band + number % (BAND * cols) % rows) * BM, number % (BAND * cols) / rows * BN};
}

extern "C" __global__ void __launch_bounds__(CONSUMERS * GROUP + 32, 1)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B,
     const __grid_constant__ CUtensorMap map_C, int M, int N, int K)
{
    static_assert(BK * sizeof(__nv_bfloat16) == ROW, "a tile of A is one box");
    static_assert(BM == CONSUMERS * ROWS && BN % STRIP == 0, "a consumer makes one whole product");
    struct Stage {
        __nv_bfloat16 a[BM][BK];                // one box
        __nv_bfloat16 b[BN / STRIP][BK][STRIP]; // a box for each strip of 64 columns
    };
    using Room = __nv_bfloat16[ROWS][STRIP];                  // a box of C
    extern __shared__ __align__(1024) unsigned char shared[]; // the swizzle depends on the address
    Stage *stages = reinterpret_cast<Stage *>(shared);
    Room *rooms = reinterpret_cast<Room *>(stages + STAGES); // one for each consumer
    __shared__ Barrier full[STAGES];                         // a phase ends when a K tile has arrived in the stage
    __shared__ Barrier empty[STAGES];                        // a phase ends when all consumers have multiplied it

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);
            init(empty[stage], CONSUMERS);
        }
        barriers_are_ready();
    }
    __syncthreads(); // the last barrier of the whole block

    // What is my role? The first warpgroups are consumers, the last warp is the producer.
    const int role = threadIdx.x / GROUP;
    const int thread = threadIdx.x % GROUP; // of my warpgroup

    // Which tiles of C are my block's? The first is blockIdx.x.
    const int tiles = M / BM * (N / BN);
    int next = tiles; // distance from one to the next
    // (1) Each block takes one, then all take the next ones.
    next = gridDim.x;

    // K tiles are counted through all tiles of C: stages and phases do not start over.
    int step = 0;
    if (role == CONSUMERS) {
        // Producer: one thread requests every K tile of every tile of C, as soon as its stage is empty.
        if (thread == 0)
            for (int number = blockIdx.x; number < tiles; number += next) {
                const Corner at = corner(number, M, N);
                for (int k0 = 0; k0 < K; k0 += BK, step++) {
                    await(empty[step % STAGES], step / STAGES % 2 ^ 1);
                    Stage &to = stages[step % STAGES];
                    Barrier &barrier = full[step % STAGES];
                    arrive_for(barrier, sizeof(Stage));
                    copy_box(to.a, map_A, k0, at.row, barrier);
                    for (int s = 0; s < BN / STRIP; s++)
                        copy_box(to.b[s], map_B, at.col + s * STRIP, k0, barrier);
                }
            }
        return;
    }

    // Consumer: multiplies every K tile, as soon as its stage is full, and stores every tile of C.
    const int warp = thread / 32, lane = thread % 32;
    Room &room = rooms[role];
    for (int number = blockIdx.x; number < tiles; number += next) {
        float acc[BN / 2] = {};
        for (int k0 = 0; k0 < K; k0 += BK, step++) {
            await(full[step % STAGES], step / STAGES % 2);
            const Stage &from = stages[step % STAGES];
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < BK; k += DEPTH) {
                const auto a = descriptor(&from.a[role * ROWS][k], 0, EIGHT);
                const auto b = descriptor(&from.b[0][k][0], sizeof(from.b[0]), EIGHT);
                wgmma_bf16(acc, a, b);
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (k0 > 0 && thread == 0)
                arrive(empty[(step - 1) % STAGES]);
        }
        wgmma_wait<0>();
        // (2) The last products are complete: the producer may fill their stage for the next tile of C.
        if (thread == 0)
            arrive(empty[(step - 1) % STAGES]);

        // Store my 64 rows: 64 columns at a time from registers to my room, and from there by TMA.
        const Corner at = corner(number, M, N);
#pragma unroll
        for (int s = 0; s < BN / STRIP; s++) {
            // (3) The thread that requested the last store waits until it has read the room, and then all continue.
            if (thread == 0)
                stores_have_read<0>();
            group_barrier(1 + role);

            // (4) A warp has 16 of 64 rows. In row r, the box has 16 bytes of number p at place p ^ r % 8.
#pragma unroll
            for (int i = 0; i < STRIP / 2; i += 2) {
                const int row = warp * 16 + i / 2 % 2 * 8 + lane / 4;
                const int col = (i / 4 ^ row % 8) * PIECE + lane % 4 * 2;
                const float *sums = &acc[s * STRIP / 2 + i];
                reinterpret_cast<__nv_bfloat162 &>(room[row][col]) = __floats2bfloat162_rn(sums[0], sums[1]);
            }

            // (5) The TMA must see what each thread wrote, and all must have written.
            stores_see_shared();
            group_barrier(1 + role);
            if (thread == 0) {
                store_box(map_C, at.col + s * STRIP, at.row + role * ROWS, room);
                stores_commit();
            }
        }
    }
    // (6) Shared memory must exist until the last store has read it.
    if (thread == 0)
        stores_have_read<0>();
}
