// Lesson 21: clusters
// New idea: two blocks, one above the other in C, share B: each requests half of a tile of B, for both.
// Before:   lesson 20, each block requests all of its own tiles, and releases stages only to its own producer.
// Launch:   grid BLOCKS in clusters of CLUSTER, 2 or 1 (from lesson.toml), block CONSUMERS * 128 + 32; BM = 128,
//           BN = 256, BK = 64, STAGES = 4, CONSUMERS = 2 warpgroups. BAND rows of pairs take the columns of B together.
#include <cuda_bf16.h>

#include "cluster.cuh"
#include "tma_store.cuh"
#include "wgmma.cuh"

constexpr int ROW = 128;                           // bytes in a row of a box: the width of the swizzle
constexpr int EIGHT = 8 * ROW;                     // bytes in eight rows, after which the swizzle repeats
constexpr int STRIP = ROW / sizeof(__nv_bfloat16); // columns of B, or of C, in a box
constexpr int PIECE = 16 / sizeof(__nv_bfloat16);  // columns that the swizzle keeps together
constexpr int DEPTH = 16;                          // k of a product
constexpr int ROWS = 64;                           // rows of A in a product, and of C in a consumer
constexpr int GROUP = 128;                         // threads in a warpgroup
constexpr int PART = BN / STRIP / CLUSTER;         // strips of B that a block requests
constexpr int IN_BLOCK = 0x3ffff;                  // the bits of a shared address that say where it is in its block

// Where a tile is and how it is stored. `strip`: bytes from 64 columns to the next 64; `eight`: from eight rows to the
// next eight. In a cluster, further bits of an address name the block. A descriptor has no room for them.
__device__ inline unsigned long long descriptor(const void *tile, unsigned strip, unsigned eight)
{
    unsigned long long bits = 0;
    bits |= (__cvta_generic_to_shared(tile) & IN_BLOCK) / 16;
    bits |= (unsigned long long)(strip / 16) << 16;
    bits |= (unsigned long long)(eight / 16) << 32;
    bits |= 1ull << 62;
    return bits;
}

// The first element of pair `number` of C: CLUSTER tiles, one below the other. BAND rows of pairs are a band.
struct Corner {
    int row, col;
};
__device__ inline Corner corner(int number, int M, int N)
{
    const int cols = N / BN;
    const int band = number / (BAND * cols) * BAND;
    const int rows = min(BAND, M / BM / CLUSTER - band);
    return {(band + number % (BAND * cols) % rows) * CLUSTER * BM, number % (BAND * cols) / rows * BN};
}

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(CONSUMERS * GROUP + 32, 1)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B,
     const __grid_constant__ CUtensorMap map_C, int M, int N, int K)
{
    static_assert(BK * sizeof(__nv_bfloat16) == ROW, "a tile of A is one box");
    static_assert(BM == CONSUMERS * ROWS && BN % STRIP == 0, "a consumer makes one whole product");
    static_assert(PART * CLUSTER * STRIP == BN, "each block requests as much of B");
    struct Stage {
        __nv_bfloat16 a[BM][BK];                // one box
        __nv_bfloat16 b[BN / STRIP][BK][STRIP]; // a box for each strip of 64 columns
    };
    using Room = __nv_bfloat16[ROWS][STRIP];                  // a box of C
    extern __shared__ __align__(1024) unsigned char shared[]; // the swizzle depends on the address
    Stage *stages = reinterpret_cast<Stage *>(shared);
    Room *rooms = reinterpret_cast<Room *>(stages + STAGES); // one for each consumer
    __shared__ Barrier full[STAGES];                         // a phase ends when a K tile has arrived in the stage
    __shared__ Barrier empty[STAGES];                        // a phase ends when the stage may be filled again

    if (threadIdx.x == 0) {
        int arrivals = CONSUMERS; // at an empty barrier, in a phase
        // (1) My half of B is for all blocks of the cluster: the consumers of all must be done with the stage.
        arrivals = CONSUMERS * CLUSTER;
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);
            init(empty[stage], arrivals);
        }
        barriers_are_ready();
        barriers_are_ready_in_cluster();
    }
    // (2) From here on, the other block may arrive at my barriers and fill my stages.
    cluster_sync();

    // What is my role? The first warpgroups are consumers, the last warp is the producer.
    const int role = threadIdx.x / GROUP;
    const int thread = threadIdx.x % GROUP; // of my warpgroup

    // Which pairs of tiles are my cluster's? Of each, I compute the tile of my rank.
    const int pairs = M / BM / CLUSTER * (N / BN);
    const int rank = cluster_rank();
    int first = pairs, next = pairs; // the first pair, and the distance from one to the next
    // (3) Blocks of a cluster have neighbouring numbers.
    first = blockIdx.x / CLUSTER;
    next = gridDim.x / CLUSTER;

    // K tiles are counted through all tiles of C: stages and phases do not start over.
    int step = 0;
    if (role == CONSUMERS) {
        // Producer: one thread requests every K tile of every tile of C, as soon as its stage is empty.
        if (thread == 0)
            for (int number = first; number < pairs; number += next) {
                const Corner at = corner(number, M, N);
                for (int k0 = 0; k0 < K; k0 += BK, step++) {
                    await(empty[step % STAGES], step / STAGES % 2 ^ 1);
                    Stage &to = stages[step % STAGES];
                    Barrier &barrier = full[step % STAGES];
                    // All bytes that will arrive here, also those that the other block requests.
                    arrive_for(barrier, sizeof(Stage));
                    copy_box(to.a, map_A, k0, at.row + rank * BM, barrier);
                    // (4) My strips of B, for all blocks of the cluster.
                    for (int s = rank * PART; s < (rank + 1) * PART; s++)
                        share_box(to.b[s], map_B, at.col + s * STRIP, k0, barrier, (1 << CLUSTER) - 1);
                }
            }
    } else {
        // Consumer: multiplies every K tile, as soon as its stage is full, and stores every tile of C.
        const int warp = thread / 32, lane = thread % 32;
        Room &room = rooms[role];
        const auto release = [&](int stage) {
            // (5) The producer of every block fills a part of the stage: one thread arrives at each block's barrier.
            if (thread < CLUSTER)
                arrive_at(empty[stage], thread);
        };
        for (int number = first; number < pairs; number += next) {
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
                if (k0 > 0)
                    release((step - 1) % STAGES);
            }
            wgmma_wait<0>();
            release((step - 1) % STAGES);

            // Store my 64 rows as in lesson 20: from registers to my room, and from there by TMA.
            const Corner at = corner(number, M, N);
#pragma unroll
            for (int s = 0; s < BN / STRIP; s++) {
                if (thread == 0)
                    stores_have_read<0>();
                group_barrier(1 + role);
#pragma unroll
                for (int i = 0; i < STRIP / 2; i += 2) {
                    const int row = warp * 16 + i / 2 % 2 * 8 + lane / 4;
                    const int col = (i / 4 ^ row % 8) * PIECE + lane % 4 * 2;
                    const float *sums = &acc[s * STRIP / 2 + i];
                    reinterpret_cast<__nv_bfloat162 &>(room[row][col]) = __floats2bfloat162_rn(sums[0], sums[1]);
                }
                stores_see_shared();
                group_barrier(1 + role);
                if (thread == 0) {
                    store_box(map_C, at.col + s * STRIP, at.row + rank * BM + role * ROWS, room);
                    stores_commit();
                }
            }
        }
        if (thread == 0)
            stores_have_read<0>();
    }
    // (6) The other block's last arrivals need my barriers: no block ends before both are done.
    cluster_sync();
}
