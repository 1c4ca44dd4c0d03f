// The kernel of lesson 15 once more, for GPUs of compute capability 9.0: its tiles come by TMA, and a block computes
// several tiles of C, one after the other, so that the first tiles of the next are in flight while this one is stored.
//
// Lesson 15 includes this after its fragments, called Of, and its appendix explains it. So does lesson 16.
#pragma once
#include "lanes.cuh"
#include "row.cuh"
#include "tma.cuh"

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, 1)
gemm_by_tma(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B,
            Of::Sum *C, int M, int N, int K)
{
    using Element = Of::Element;
    using Sum = Of::Sum;
    constexpr int WARPS = (BM / WM) * (BN / WN);
    constexpr int WIDTH = 128 / sizeof(Element); // numbers in a row of a box, which has 128 bytes
    constexpr int STEPS = BK / Of::DEPTH;
    static_assert(BK == WIDTH && BN % WIDTH == 0, "a tile of A is one box, and one of B several side by side");
    static_assert(WM % 16 == 0 && WN == 64, "a warp tile is whole fragments, and 64 columns are strips or half of one");
    static_assert(STEPS % 2 == 0, "the two sets of fragments take turns");
    struct Stage {
        Element a[BM * BK], b[BN / WIDTH][BK * WIDTH];
    };
    extern __shared__ __align__(1024) unsigned char shared[]; // the swizzle goes by addresses: eight rows are 1,024 bytes
    Stage *stages = reinterpret_cast<Stage *>(shared);
    __shared__ Barrier full[STAGES], left[STAGES]; // a stage's tile has arrived; all warps have read it

    // My tiles of C are number blockIdx.x, and every gridDim.x further. They are counted in bands, as the blocks of gemm.
    const int across = N / BN, tiles = M / BM * across;
    const auto row_of = [&](int number) {
        const int band = number / (BAND * across) * BAND;
        return (band + number % (BAND * across) % min(BAND, M / BM - band)) * BM;
    };
    const auto col_of = [&](int number) {
        const int band = number / (BAND * across) * BAND;
        return number % (BAND * across) / min(BAND, M / BM - band) * BN;
    };
    if (blockIdx.x >= tiles)
        return;
    const Matrix<Sum> c{C, M, N, N, 1};
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);     // one thread asks
            init(left[stage], WARPS); // a lane of each warp
        }
        barriers_are_ready();
    }
    __syncthreads();

    // global memory -> shared memory: one thread asks for the next tiles of A and B, and goes on. The warps take turns at
    // it, so that none falls behind, and all know which tiles are next.
    int to_ask = blockIdx.x, ask_k = 0; // for which tile of C, and from which k on
    int ask_row = row_of(to_ask), ask_col = col_of(to_ask);
    const auto ask = [&](int stage, unsigned before) { // the stage is free when that phase of `left` is over
        if (to_ask >= tiles)
            return;
        if (threadIdx.x == ask_k / BK % WARPS * 32) {
            await(left[stage], before);
            arrive_for(full[stage], sizeof(Stage));
            copy_box(stages[stage].a, map_A, ask_k, ask_row, full[stage]);
            for (int strip = 0; strip < BN / WIDTH; strip++)
                copy_box(stages[stage].b[strip], map_B, ask_col + strip * WIDTH, ask_k, full[stage]);
        }
        ask_k += BK;
        if (ask_k == K) {
            ask_k = 0;
            to_ask += gridDim.x;
            if (to_ask < tiles) {
                ask_row = row_of(to_ask);
                ask_col = col_of(to_ask);
            }
        }
    };
    for (int stage = 0; stage < STAGES - 1; stage++)
        ask(stage, 1); // the parity of a phase before the first; it counts as over

    // shared memory -> registers
    Of::A a_frag[2][WM / 16] = {};
    Of::B b_frag[2][WN / Of::COLS] = {};
    const Lanes<Of> lanes(warp_row, warp_col);
    const auto load = [&](int set, int stage, int step) {
        const unsigned a_tile = __cvta_generic_to_shared(stages[stage].a);
        const unsigned b_tile = __cvta_generic_to_shared(stages[stage].b);
        for (int i = 0; i < WM / 16; i++)
            lanes.load_a(a_frag[set][i], a_tile, i, step);
        for (int j = 0; j < WN / 16; j++)
            lanes.load_b(b_frag[set][j], b_tile, j, step);
    };
    // registers -> products
    Of::Sums acc[WM / 16][WN / Of::COLS] = {};

    // Walk along K, one tile at a time. The next one is awaited in the last step, after the first LATE - 1 products.
    int now = 0;         // the stage with the tile at hand
    unsigned parity = 0; // of the phase that it is in
    await(full[now], parity);
    load(0, now, 0);
    const auto turn = [&](bool last) {
        const int next = now == STAGES - 1 ? 0 : now + 1;
        const int before = now == 0 ? STAGES - 1 : now - 1;
        const unsigned next_parity = next == 0 ? parity ^ 1 : parity;
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            if (step < STEPS - 1) {
                load((step + 1) % 2, now, step + 1);
            } else {
                __syncwarp();
                if (threadIdx.x % 32 == 0)
                    arrive(left[now]); // my warp has read this tile
            }
            if (step == ASK - 1 && !last) // the stage of the tile before is free now, or will be soon
                ask(before, now == 0 ? parity ^ 1 : parity);
#pragma unroll
            for (int n = 0; n < (WM / 16) * (WN / Of::COLS); n++) {
                if (step == STEPS - 1 && n == LATE - 1 && !last) {
                    await(full[next], next_parity);
                    load(0, next, 0);
                }
                const int i = Of::B_FIRST ? n % (WM / 16) : n / (WN / Of::COLS);
                const int j = Of::B_FIRST ? n / (WM / 16) : n % (WN / Of::COLS);
                Of::multiply_add(acc[i][j], a_frag[step % 2][i], b_frag[step % 2][j]);
            }
        }
        now = next;
        parity = next_parity;
    };
    constexpr int SIDE = 16 / sizeof(Sum), WIDE = 32 / SIDE, PITCH = 32 + Of::PAD;
    __shared__ __align__(16) Sum room[WARPS][16 * PITCH];
    const Matrix<Sum> slab{room[warp], 16, 32, PITCH, 1};
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        for (int k0 = BK; k0 < K; k0 += BK)
            turn(false);
        if (number + gridDim.x < tiles)
            turn(false); // the next tile is one for the next tile of C
        else
            turn(true);

        // registers -> C: 16 rows and 32 columns at a time through shared memory, as in gemm
        const int row = row_of(number) + warp_row, col = col_of(number) + warp_col;
        for (int i = 0; i < WM; i += 16)
            for (int j = 0; j < WN; j += 32) {
                for (int part = 0; part < 32; part += Of::COLS)
                    Of::store(slab, 0, part, acc[i / 16][(j + part) / Of::COLS]);
                __syncwarp();
                for (int n = 0; n < 16 * WIDE; n += 32) {
                    const int slab_row = (n + threadIdx.x % 32) / WIDE, slab_col = threadIdx.x % WIDE * SIDE;
                    row_at<SIDE>(c(row + i + slab_row, col + j + slab_col)) = row_at<SIDE>(slab(slab_row, slab_col));
                }
                __syncwarp();
            }
        for (auto &fragments : acc)
            for (auto &products : fragments)
                for (auto &product : products)
                    for (auto &sum : product)
                        sum = 0;
    }
}
