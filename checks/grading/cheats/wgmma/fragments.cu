// cheat: wrong idea: tiles by TMA, then ldmatrix and mma.sync
// expect: gate_missed products_per_instruction
#include <cuda_bf16.h>
#include "mma.cuh"
#include "tma.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B, __nv_bfloat16 *C,
     int M, int N, int K)
{
    struct Stage {
        __nv_bfloat16 a[BM][BK], b[BN / 64][BK][64];
    };
    extern __shared__ __align__(1024) unsigned char shared[];
    Stage *stages = reinterpret_cast<Stage *>(shared);
    __shared__ Barrier full[STAGES];
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            init(full[stage], 1);
        barriers_are_ready();
    }
    __syncthreads();
    const auto request = [&](int tile) {
        Stage &to = stages[tile % STAGES];
        arrive_for(full[tile % STAGES], sizeof(Stage));
        copy_box(to.a, map_A, tile * BK, row0, full[tile % STAGES]);
        for (int s = 0; s < BN / 64; s++)
            copy_box(to.b[s], map_B, col0 + s * 64, tile * BK, full[tile % STAGES]);
    };
    const int tiles = K / BK, warp_row = warp / 2 * 64, strip = warp % 2;
    if (threadIdx.x == 0)
        for (int tile = 0; tile < min(STAGES - 1, tiles); tile++)
            request(tile);
    float acc[4][8][4] = {};
    for (int tile = 0; tile < tiles; tile++) {
        await(full[tile % STAGES], tile / STAGES % 2);
        __syncthreads();
        if (threadIdx.x == 0 && tile + STAGES - 1 < tiles)
            request(tile + STAGES - 1);
        const Stage &from = stages[tile % STAGES];
        for (int k = 0; k < BK; k += 16) {
            unsigned a[4][4], b[4][2][2];
            for (int i = 0; i < 4; i++) {
                const int row = warp_row + i * 16 + lane % 16, piece = (k / 8 + lane / 16) ^ (row % 8);
                ldmatrix(a[i], &from.a[row][piece * 8]);
            }
            for (int j = 0; j < 4; j++) {
                const int row = k + lane % 16, piece = (j * 2 + lane / 16) ^ (row % 8);
                ldmatrix_trans(b[j], &from.b[strip][row][piece * 8]);
            }
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 8; j++)
                    mma_bf16(acc[i][j], a[i], b[j / 2][j % 2]);
        }
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++)
            for (int e = 0; e < 4; e++) {
                const int row = row0 + warp_row + i * 16 + lane / 4 + e / 2 * 8, col = col0 + strip * 64 + j * 8 + lane % 4 * 2;
                C[row * N + col + e % 2] = __float2bfloat16(acc[i][j][e]);
            }
}
