// C = A B^T in bf16, fp32 sums: a producer warpgroup asks the TMA for tiles, two consumers multiply 128 x 256 of C.
// A is (M, K), B is (N, K). STAY: grid of at most one block per multiprocessor, tiles in bands of 8 rows; else grid
// (N / BN, M / BM). TMA_STORE: C goes through shared memory. CLUSTER: so many blocks have tiles in one column, and each
// copies its share of the tile of B for all of them; needs STAY. Block 384.
#include "hopper.cuh"

constexpr int BM = 128, BN = 256, BAND = 8, GROUP = 128, SHARE = BN / CLUSTER;

struct Stage {
    __nv_bfloat16 a[BM * BK], b[BN * BK];
};
struct Shared {
    Stage stages[STAGES];
    __nv_bfloat16 c[TMA_STORE ? 2 : 1][TMA_STORE ? 4 : 1][64 * 64]; // of each consumer: strips of 64 columns
};

struct Place {
    int row, col;
};

__device__ inline Place place_of(int tile, int rows, int cols)
{
    if (!STAY)
        return {(int)blockIdx.y * BM, (int)blockIdx.x * BN};
    const int band = tile / (BAND * cols), height = min(BAND, rows - band * BAND), inside = tile - band * BAND * cols;
    return {(band * BAND + inside % height) * BM, inside / height * BN};
}

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1)
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B,
     const __grid_constant__ CUtensorMap map_C, __nv_bfloat16 *C, int M, int N, int K)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    Shared &s = *reinterpret_cast<Shared *>(shared);
    __shared__ Barrier full[STAGES], empty[STAGES];
    const int role = threadIdx.x / GROUP, t = threadIdx.x % GROUP;
    const int rows = M / BM, cols = N / BN, step = STAY ? gridDim.x : rows * cols;
    const unsigned rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);
            init(empty[stage], 2 * CLUSTER);
        }
        barriers_are_ready();
    }
    if (CLUSTER > 1)
        cluster_barrier();
    else
        __syncthreads();

    int stage = 0, parity = 0;
    const auto next = [&] {
        if (++stage == STAGES)
            stage = 0, parity ^= 1;
    };
    if (role == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (t == 0)
            for (int tile = STAY ? blockIdx.x : 0; tile < rows * cols; tile += step) {
                const Place at = place_of(tile, rows, cols);
                for (int k0 = 0; k0 < K; k0 += BK, next()) {
                    await(empty[stage], parity ^ 1);
                    arrive_for(full[stage], sizeof(Stage));
                    copy_box(s.stages[stage].a, map_A, k0, at.row, full[stage]);
                    if (CLUSTER > 1)
                        copy_box_to_all(s.stages[stage].b + rank * SHARE * BK, map_B, k0, at.col + rank * SHARE,
                                        full[stage], (1 << CLUSTER) - 1);
                    else
                        copy_box(s.stages[stage].b, map_B, k0, at.col, full[stage]);
                }
            }
        if (CLUSTER > 1)
            cluster_barrier(); // others may still copy to this block
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int half = role - 1;
    for (int tile = STAY ? blockIdx.x : 0; tile < rows * cols; tile += step) {
        const Place at = place_of(tile, rows, cols);
        float d[128] = {};
        for (int k0 = 0; k0 < K; k0 += BK, next()) {
            await(full[stage], parity);
            products_begin();
            multiply_tile(d, s.stages[stage].a + half * 64 * BK, s.stages[stage].b);
            products_commit();
            products_left<0>();
            if (CLUSTER > 1 && t < CLUSTER)
                arrive_at(empty[stage], t);
            else if (t == 0)
                arrive(empty[stage]);
        }
        if (!TMA_STORE) {
            store_rows(d, C, at.row + 64 * half, at.col, N);
            continue;
        }
        if (t == 0)
            stores_have_read();
        named_barrier(1 + half, GROUP);
        const int lane = t % 32, row = t / 32 * 16 + lane % 16;
        for (int pair = 0; pair < 16; pair++) {
            const float *sums = d + 8 * pair;
            const unsigned four[4] = {packed(sums[0], sums[1]), packed(sums[2], sums[3]), packed(sums[4], sums[5]),
                                      packed(sums[6], sums[7])};
            const int piece = (pair % 4 * 2 + lane / 16) ^ row % 8;
            store_matrices(&s.c[half][pair / 4][row * 64 + piece * 8], four);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        named_barrier(1 + half, GROUP);
        if (t == 0) {
            for (int strip = 0; strip < 4; strip++)
                store_box(map_C, s.c[half][strip], at.col + 64 * strip, at.row + 64 * half);
            stores_commit();
        }
    }
    if (TMA_STORE && t == 0)
        stores_have_read();
    if (CLUSTER > 1)
        cluster_barrier();
}
