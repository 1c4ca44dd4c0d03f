// Lesson 18: wgmma
// New idea: one thread requests boxes of A and B, and 128 threads multiply the tiles directly from shared memory.
// Before:   lesson 15, all threads copy pieces, load fragments and multiply them. Now: descriptors, and barriers that
//           count bytes.
// Launch:   grid (N/BN, M/BM), block 128, one warpgroup; BM = BN = 128, BK = 64, STAGES = 3, two blocks per
//           multiprocessor. BAND rows of blocks go through the columns of B together.
#include <cuda_bf16.h>

#include "matrix.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

constexpr int ROW = 128;                           // bytes in a row of a box: the width of the swizzle
constexpr int EIGHT = 8 * ROW;                     // bytes in eight rows, after which the swizzle repeats
constexpr int STRIP = ROW / sizeof(__nv_bfloat16); // columns of B in a box
constexpr int DEPTH = 16;                          // k of a product
constexpr int ROWS = 64;                           // rows of A in a product

// Where a tile is and how it is stored. `strip`: bytes from 64 columns to the next 64; `eight`: from eight rows to the
// next eight.
__device__ inline unsigned long long descriptor(const void *tile, unsigned strip, unsigned eight)
{
    unsigned long long bits = 0;
    // (1) Three numbers in units of 16 bytes, and bit 62: rows of 128 bytes are swizzled.
    bits |= __cvta_generic_to_shared(tile) / 16;
    bits |= (unsigned long long)(strip / 16) << 16;
    bits |= (unsigned long long)(eight / 16) << 32;
    bits |= 1ull << 62;
    return bits;
}

extern "C" __global__ void __launch_bounds__(128, BLOCKS_PER_SM)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B, __nv_bfloat16 *C,
     int M, int N, int K)
{
    static_assert(BK * sizeof(__nv_bfloat16) == ROW, "a tile of A is one box");
    static_assert(BM % ROWS == 0 && (BN == 128 || BN == 256), "a tile is whole products");
    struct Stage {
        __nv_bfloat16 a[BM][BK];                // one box
        __nv_bfloat16 b[BN / STRIP][BK][STRIP]; // a box for each strip of 64 columns
    };
    extern __shared__ __align__(1024) unsigned char shared[]; // the swizzle depends on the address
    Stage *stages = reinterpret_cast<Stage *>(shared);
    __shared__ Barrier full[STAGES]; // a phase ends when a tile has arrived in the stage

    // Which tile of C is my block's? Those of BAND rows go through the columns together, as in lesson 14.
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int band = number / (BAND * gridDim.x) * BAND;
    const int rows = min(BAND, gridDim.y - band);
    const int block_row = (band + number % (BAND * gridDim.x) % rows) * BM;
    const int block_col = number % (BAND * gridDim.x) / rows * BN;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            init(full[stage], 1); // one thread arrives in each phase
        barriers_are_ready();
    }
    __syncthreads();

    // global memory -> shared memory: requests the boxes of K tile `tile`, and does not wait. One thread calls it.
    const auto request = [&](int tile) {
        Stage &to = stages[tile % STAGES];
        Barrier &barrier = full[tile % STAGES];
        // (2) Announce the bytes, then request a box of A and one for each strip of B.
        arrive_for(barrier, sizeof(Stage));
        copy_box(to.a, map_A, tile * BK, block_row, barrier);
        for (int s = 0; s < BN / STRIP; s++)
            copy_box(to.b[s], map_B, block_col + s * STRIP, tile * BK, barrier);
    };

    // shared memory -> products: starts the products of a K tile as one group, and does not wait. All threads call it.
    float acc[BM / ROWS][BN / 2] = {};
    const auto multiply = [&](const Stage &from) {
        // (3) A step of 16 k is 32 bytes further in the rows of A, and 16 rows further in B.
        wgmma_fence();
        for (int k = 0; k < BK; k += DEPTH)
            for (int m = 0; m < BM / ROWS; m++) {
                const auto a = descriptor(&from.a[m * ROWS][k], 0, EIGHT);
                const auto b = descriptor(&from.b[0][k][0], sizeof(from.b[0]), EIGHT);
                wgmma_bf16(acc[m], a, b);
            }
        wgmma_commit();
    };

    const int tiles = K / BK;
    if (threadIdx.x == 0)
        for (int tile = 0; tile < min(STAGES - 1, tiles); tile++)
            request(tile);

    // Walk along K, one tile at a time.
    for (int tile = 0; tile < tiles; tile++) {
        // (4) The stage was filled tile / STAGES times before, so this is the phase of that number.
        await(full[tile % STAGES], tile / STAGES % 2);
        multiply(stages[tile % STAGES]);
        // (5) The products of the previous tile are complete, so its stage is free.
        wgmma_wait<1>();
        if (threadIdx.x == 0 && tile + STAGES - 1 < tiles)
            request(tile + STAGES - 1);
    }
    wgmma_wait<0>();

    // Write my elements back: a warp has 16 of 64 rows. In each 8 columns, a thread holds the elements of mma.sync.
    const Matrix<__nv_bfloat16> c{C, M, N, N, 1};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int m = 0; m < BM / ROWS; m++)
        for (int i = 0; i < BN / 2; i += 2) {
            const int row = block_row + m * ROWS + warp * 16 + i / 2 % 2 * 8 + lane / 4;
            const int col = block_col + i / 4 * 8 + lane % 4 * 2;
            reinterpret_cast<__nv_bfloat162 &>(c(row, col)) = __floats2bfloat162_rn(acc[m][i], acc[m][i + 1]);
        }
}
