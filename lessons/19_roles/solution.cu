// Lesson 19: roles
// New idea: one warp only copies, and two warpgroups only multiply. Full and empty barriers hand the stages over.
// Before:   lesson 18, one of the threads that multiply requests tiles, after it has waited for products.
// Launch:   grid (N/BN, M/BM), block CONSUMERS * 128 + PRODUCERS * 32; BM = 128, BN = 256, BK = 64, STAGES = 4,
//           CONSUMERS = 2 warpgroups, PRODUCERS = 1 warp. BAND rows of blocks go through the columns of B together.
#include <cuda_bf16.h>

#include "matrix.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

constexpr int ROW = 128;                           // bytes in a row of a box: the width of the swizzle
constexpr int EIGHT = 8 * ROW;                     // bytes in eight rows, after which the swizzle repeats
constexpr int STRIP = ROW / sizeof(__nv_bfloat16); // columns of B in a box
constexpr int DEPTH = 16;                          // k of a product
constexpr int ROWS = 64;                           // rows of A in a product
constexpr int GROUP = 128;                         // threads in a warpgroup
constexpr int MINE = BM / CONSUMERS;               // rows of C that a consumer computes
constexpr bool MOVE = PRODUCERS == 4;              // a whole warpgroup copies, and releases registers for consumers
constexpr int FEW = 24, MANY = 240;                // registers a thread: 128 * (24 + 2 * 240) of 65,536

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

extern "C" __global__ void __launch_bounds__(CONSUMERS * GROUP + PRODUCERS * 32, 1)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B, __nv_bfloat16 *C,
     int M, int N, int K)
{
    static_assert(BK * sizeof(__nv_bfloat16) == ROW, "a tile of A is one box");
    static_assert(MINE % ROWS == 0 && BN % STRIP == 0, "a consumer makes whole products");
    static_assert(PRODUCERS == 1 || (MOVE && CONSUMERS == 2), "registers move between whole warpgroups");
    struct Stage {
        __nv_bfloat16 a[BM][BK];                // one box
        __nv_bfloat16 b[BN / STRIP][BK][STRIP]; // a box for each strip of 64 columns
    };
    extern __shared__ __align__(1024) unsigned char shared[]; // the swizzle depends on the address
    Stage *stages = reinterpret_cast<Stage *>(shared);
    __shared__ Barrier full[STAGES];  // a phase ends when a tile has arrived in the stage
    __shared__ Barrier empty[STAGES]; // a phase ends when all consumers have multiplied it

    // Which tile of C is my block's? Those of BAND rows go through the columns together, as in lesson 18.
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int band = number / (BAND * gridDim.x) * BAND;
    const int rows = min(BAND, gridDim.y - band);
    const int block_row = (band + number % (BAND * gridDim.x) % rows) * BM;
    const int block_col = number % (BAND * gridDim.x) / rows * BN;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            // (1) In each phase, one producer announces a tile, and one thread of each consumer releases it.
            init(full[stage], 1);
            init(empty[stage], CONSUMERS);
        }
        barriers_are_ready();
    }
    __syncthreads(); // the last barrier of the whole block

    // What is my role? The first warpgroups are consumers, the rest are producers.
    const int role = threadIdx.x / GROUP;
    const int thread = threadIdx.x % GROUP; // of my warpgroup

    // global memory -> shared memory: requests the boxes of K tile `tile`, and does not wait. The producer calls it.
    const auto request = [&](int tile) {
        Stage &to = stages[tile % STAGES];
        Barrier &barrier = full[tile % STAGES];
        arrive_for(barrier, sizeof(Stage));
        copy_box(to.a, map_A, tile * BK, block_row, barrier);
        for (int s = 0; s < BN / STRIP; s++)
            copy_box(to.b[s], map_B, block_col + s * STRIP, tile * BK, barrier);
    };

    // shared memory -> products: starts those of my rows of a K tile as a group, and does not wait. Consumers call it.
    float acc[MINE / ROWS][BN / 2] = {};
    const auto multiply = [&](const Stage &from) {
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK; k += DEPTH)
            for (int m = 0; m < MINE / ROWS; m++) {
                const auto a = descriptor(&from.a[role * MINE + m * ROWS][k], 0, EIGHT);
                const auto b = descriptor(&from.b[0][k][0], sizeof(from.b[0]), EIGHT);
                wgmma_bf16(acc[m], a, b);
            }
        wgmma_commit();
    };

    const int tiles = K / BK;
    if (role == CONSUMERS) {
        // Producer: one thread requests every tile, as soon as its stage is empty.
        if (MOVE)
            registers_down<FEW>();
        if (thread == 0)
            for (int tile = 0; tile < tiles; tile++) {
                // (2) The stage has been filled tile / STAGES times: wait for the phase before that one.
                await(empty[tile % STAGES], tile / STAGES % 2 ^ 1);
                request(tile);
            }
        return;
    }

    // Consumer: multiplies every tile, as soon as its stage is full.
    if (MOVE)
        registers_up<MANY>();
    for (int tile = 0; tile < tiles; tile++) {
        // (3) The phase of a full stage is the same as in lesson 18.
        await(full[tile % STAGES], tile / STAGES % 2);
        multiply(stages[tile % STAGES]);
        // (4) The products of the previous tile are complete: my warpgroup is done with its stage.
        wgmma_wait<1>();
        if (tile > 0 && thread == 0)
            arrive(empty[(tile - 1) % STAGES]);
    }
    wgmma_wait<0>();

    // Write my elements back: a warp has 16 of 64 rows. In each 8 columns, a thread holds the elements of mma.sync.
    const Matrix<__nv_bfloat16> c{C, M, N, N, 1};
    const int warp = thread / 32, lane = thread % 32;
#pragma unroll
    for (int m = 0; m < MINE / ROWS; m++)
#pragma unroll
        for (int i = 0; i < BN / 2; i += 2) {
            const int row = block_row + role * MINE + m * ROWS + warp * 16 + i / 2 % 2 * 8 + lane / 4;
            const int col = block_col + i / 4 * 8 + lane % 4 * 2;
            reinterpret_cast<__nv_bfloat162 &>(c(row, col)) = __floats2bfloat162_rn(acc[m][i], acc[m][i + 1]);
        }
}
