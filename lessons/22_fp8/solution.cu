// Lesson 22: fp8
// New idea: numbers of one byte with scales for blocks. The tensor core's sums of them lose bits, so every BK = 128 k
//           they are promoted: scaled, and added to sums in registers, with all 24 bits of a float.
// Before:   lesson 20, the same pipeline for bfloat16, whose sums stay in the tensor core for all of K.
// Launch:   grid BLOCKS (as many as fit, from lesson.toml), block (CONSUMERS + 1) * 128; BM = 128, BN = 256, BK = 128,
//           STAGES = 4, CONSUMERS = 2 warpgroups. PART: columns that are multiplied, then promoted, together.
#include <cuda_bf16.h>

#include "tma_store.cuh"
#include "wgmma_bytes.cuh"

#if TYPE == 3 // gemm-lessons run 22 --type int8
using Number = signed char;
using Sum = int;
using Stored = int;
#elif TYPE == 4 // --type tf32
using Number = float;
using Sum = float;
using Stored = float;
#else
using Number = unsigned char;
using Sum = float;
using Stored = __nv_bfloat16;
#endif

constexpr bool PROMOTE = TYPE == 1; // 2, --type fast: the sums of fp8 stay in the tensor core

constexpr int ROW = 128;                      // bytes in a row of a box: the width of the swizzle
constexpr int EIGHT = 8 * ROW;                // bytes in eight rows, after which the swizzle repeats
constexpr int STRIP = ROW / sizeof(Stored);   // columns of C in a box
constexpr int PIECE = 16 / sizeof(Stored);    // columns that the swizzle keeps together
constexpr int DEPTH = 32 / sizeof(Number);    // k of a product
constexpr int ROWS = 64;                      // rows of A in a product, and of C in a consumer
constexpr int GROUP = 128;                    // threads in a warpgroup
constexpr int ROOMS = 2;                      // boxes of C that a consumer fills in turn
constexpr int SCALED = 128;                   // k, and columns of B, that have one scale

__device__ inline void store_two(__nv_bfloat16 &to, const float *sums)
{
    reinterpret_cast<__nv_bfloat162 &>(to) = __floats2bfloat162_rn(sums[0], sums[1]);
}
__device__ inline void store_two(int &to, const int *sums)
{
    reinterpret_cast<int2 &>(to) = make_int2(sums[0], sums[1]);
}
__device__ inline void store_two(float &to, const float *sums)
{
    reinterpret_cast<float2 &>(to) = make_float2(sums[0], sums[1]);
}

// Where a tile is and how it is stored. Its k are side by side: 1,024 bytes from eight rows to the next eight.
__device__ inline unsigned long long descriptor(const void *tile)
{
    unsigned long long bits = 0;
    bits |= __cvta_generic_to_shared(tile) / 16;
    bits |= (unsigned long long)(EIGHT / 16) << 32;
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

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * GROUP, 1)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B,
     const __grid_constant__ CUtensorMap map_C, const __grid_constant__ CUtensorMap map_scale_A,
     const float *__restrict__ scale_B, int M, int N, int K)
{
    static_assert(BK * sizeof(Number) == ROW && BK <= SCALED, "a row of a tile is as wide as a box, and has one scale");
    static_assert(BM == CONSUMERS * ROWS && PART == SCALED, "a part of a consumer's columns has one scale of B");
    struct Stage {
        Number a[BM][BK]; // one box
        Number b[BN][BK]; // one box, too: each column of B has its k side by side
    };
    using Room = Stored[ROWS][STRIP];                         // a box of C
    extern __shared__ __align__(1024) unsigned char shared[]; // the swizzle depends on the address
    Stage *stages = reinterpret_cast<Stage *>(shared);
    Room *rooms = reinterpret_cast<Room *>(stages + STAGES);                     // ROOMS for each consumer
    float(*scales)[BM] = reinterpret_cast<float(*)[BM]>(rooms + CONSUMERS * ROOMS); // of each stage: a row's scale
    __shared__ Barrier full[STAGES];  // a phase ends when a K tile has arrived in the stage
    __shared__ Barrier empty[STAGES]; // a phase ends when all warps of consumers have read it
    __shared__ Barrier ahead;         // without promotion: its phase ends when consumer 0 has started its last products

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);
            init(empty[stage], CONSUMERS * 4); // a warp each
        }
        init(ahead, 4); // the warps of consumer 0
        barriers_are_ready();
    }
    __syncthreads(); // the last barrier of the whole block

    // What is my role? The first warpgroups are consumers, the last one is the producer.
    const int role = threadIdx.x / GROUP;
    const int thread = threadIdx.x % GROUP; // of my warpgroup
    const int tiles = M / BM * (N / BN);

    // K tiles are counted through all tiles of C: stages and phases do not start over.
    int step = 0;
    if (role == CONSUMERS) {
        // Producer: releases registers for the consumers.
        registers_down<40>();
        if (thread == 0)
            for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
                const Corner at = corner(number, M, N);
                for (int k0 = 0; k0 < K; k0 += BK, step++) {
                    const int stage = step % STAGES;
                    await(empty[stage], step / STAGES % 2 ^ 1);
                    unsigned bytes = sizeof(Stage);
                    // (1) A K tile has a scale for each row of A. They arrive with it: announce them too.
                    bytes += sizeof(scales[stage]);

                    arrive_for(full[stage], bytes);
                    // (2) Request this K tile's scales of my BM rows.
                    copy_box(scales[stage], map_scale_A, at.row, k0 / SCALED, full[stage]);

                    copy_box(stages[stage].a, map_A, k0, at.row, full[stage]);
                    copy_box(stages[stage].b, map_B, k0, at.col, full[stage]);
                }
            }
        return;
    }

    // Consumer: needs registers for acc and for the sums of a part.
    registers_up<232>();
    const int warp = thread / 32, lane = thread % 32;
    const int my_row = role * ROWS + warp * 16 + lane / 4; // of the tile; my other row is my_row + 8
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Corner at = corner(number, M, N);
        Sum acc[BN / 2] = {};

        // The scales of B, one for each part, are loaded a K tile ahead.
        const float *of_part = &scale_B[at.col / SCALED * (K / SCALED)]; // of the first part, one for each K tile
        float next[BN / PART];
        for (int part = 0; part < BN / PART; part++)
            next[part] = of_part[part * (K / SCALED)];

        // The scales of A in my two rows. A K tile is awaited while the last products of the one before run.
        float mine[2];
        const auto await_scales = [&](int step) {
            await(full[step % STAGES], step / STAGES % 2);
            mine[0] = scales[step % STAGES][my_row];
            mine[1] = scales[step % STAGES][my_row + 8];
        };
        if (PROMOTE)
            await_scales(step);

        for (int k0 = 0; k0 < K; k0 += BK, step++) {
            const int stage = step % STAGES;
            const Stage &from = stages[stage];
            if (PROMOTE) {
                float scale[BN / PART][2]; // of a part's sums in my two rows
                // (3) A row's scale of A times a part's scale of B. Load that of the next K tile.
                for (int part = 0; part < BN / PART; part++) {
                    scale[part][0] = mine[0] * next[part];
                    scale[part][1] = mine[1] * next[part];
                    if (k0 + BK < K)
                        next[part] = of_part[part * (K / SCALED) + k0 / SCALED + 1];
                }

#pragma unroll
                for (int part = 0; part < BN / PART; part++) {
                    float sums[PART / 2];
                    wgmma_fence();
                    // (4) Multiply this K tile alone: the sums start from 0.
#pragma unroll
                    for (int k = 0; k < BK; k += DEPTH)
                        wgmma_bytes(sums, descriptor(&from.a[role * ROWS][k]), descriptor(&from.b[part * PART][k]), k > 0);

                    wgmma_commit();
                    if (part == BN / PART - 1 && k0 + BK < K)
                        await_scales(step + 1);
                    wgmma_wait<0>();
                    // (5) Promote: scale the sums, and add them to those of earlier K tiles.
#pragma unroll
                    for (int i = 0; i < PART / 2; i++)
                        acc[part * PART / 2 + i] += scale[part][i / 2 % 2] * sums[i];
                }
                // This warp has read its scales, and its products are complete: it releases the stage.
                if (lane == 0)
                    arrive(empty[stage]);
            } else { // as in lesson 20: the sums stay in the tensor core
                await(full[stage], step / STAGES % 2);
                // In a block's last tile, consumer 0 goes ahead: it stores its rows while the other one multiplies.
                const bool last = number + gridDim.x >= tiles;
                if (last && role > 0 && k0 == max(0, K - (STAGES - 1) * BK))
                    await(ahead, 0);
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < BK; k += DEPTH) {
                    const auto a = descriptor(&from.a[role * ROWS][k]), b = descriptor(&from.b[0][k]);
#if TYPE == 4
                    wgmma_tf32(acc, a, b, k0 + k > 0);
#else
                    wgmma_bytes(acc, a, b, k0 + k > 0);
#endif
                }
                wgmma_commit();
                if (last && role == 0 && k0 + BK == K && lane == 0)
                    arrive(ahead);
                wgmma_wait<1>();
                if (k0 > 0 && lane == 0)
                    arrive(empty[(step - 1) % STAGES]);
            }
        }
        if (!PROMOTE) {
            wgmma_wait<0>();
            if (lane == 0)
                arrive(empty[(step - 1) % STAGES]);
        }

        // Store my 64 rows: 128 bytes of each at a time from registers to a room, and from there by TMA, as in lesson 20.
#pragma unroll
        for (int s = 0; s < BN / STRIP; s++) {
            Room &room = rooms[role * ROOMS + s % ROOMS];
            if (thread == 0)
                stores_have_read<ROOMS - 1>();
            group_barrier(1 + role);
#pragma unroll
            for (int i = 0; i < STRIP / 2; i += 2) {
                const int row = warp * 16 + i / 2 % 2 * 8 + lane / 4;
                const int col = i / 4 * 8 + lane % 4 * 2;
                store_two(room[row][(col / PIECE ^ row % 8) * PIECE + col % PIECE], &acc[s * STRIP / 2 + i]);
            }
            stores_see_shared();
            group_barrier(1 + role);
            if (thread == 0) {
                store_box(map_C, at.col + s * STRIP, at.row + role * ROWS, room);
                stores_commit();
            }
        }
    }
    if (thread == 0)
        stores_have_read<0>();
}
