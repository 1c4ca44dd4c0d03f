// C = A B^T in bf16, fp32 sums, by one warpgroup a block: 128 x 128 of C. A is (M, K), B is (N, K).
// Tiles of K come by TMA, STAGES - 1 of them ahead. Grid (N / BN, M / BM), block 128.
#include "hopper.cuh"

constexpr int BM = 128, BN = 128, AHEAD = STAGES - 1;

struct Stage {
    __nv_bfloat16 a[BM * BK], b[BN * BK];
};

extern "C" __global__ void __launch_bounds__(128)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B,
     const __grid_constant__ CUtensorMap map_C, __nv_bfloat16 *C, int M, int N, int K)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    Stage *stages = reinterpret_cast<Stage *>(shared);
    __shared__ Barrier full[STAGES];
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, tiles = K / BK;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            init(full[stage], 1);
        barriers_are_ready();
    }
    __syncthreads();

    const auto fetch = [&](int tile) {
        if (threadIdx.x == 0 && tile < tiles) {
            const int stage = tile % STAGES;
            arrive_for(full[stage], sizeof(Stage));
            copy_box(stages[stage].a, map_A, tile * BK, row0, full[stage]);
            copy_box(stages[stage].b, map_B, tile * BK, col0, full[stage]);
        }
    };
    for (int tile = 0; tile < AHEAD; tile++)
        fetch(tile);
    float d[2][64] = {};
    for (int tile = 0; tile < tiles; tile++) {
        const int stage = tile % STAGES;
        if (AHEAD == 0)
            fetch(tile);
        await(full[stage], tile / STAGES % 2);
        products_begin();
        multiply_tile(d[0], stages[stage].a, stages[stage].b);
        multiply_tile(d[1], stages[stage].a + 64 * BK, stages[stage].b);
        products_commit();
        products_left<AHEAD != 0>(); // those of the tile before are done
        __syncthreads();
        if (AHEAD)
            fetch(tile + AHEAD);
    }
    products_left<0>();
    store_rows(d[0], C, row0, col0, N);
    store_rows(d[1], C, row0 + 64, col0, N);
}
