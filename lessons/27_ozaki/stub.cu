// Lesson 27: ozaki
// New idea: fp64 products without fp64 units. Rows of A and columns of B become whole numbers, whose residues by 15 small
//           moduli fit in bytes. The int8 tensor cores multiply those, and the residues of C give C back.
// Before:   lesson 22, type int8: the same pipeline, with one product.
// Launch:   split: a block for each row of A, and for each column of B. gemm: BLOCKS (from lesson.toml), block
//           (CONSUMERS + 1) * 128; BM = 128, BN = 256, BK = 128, STAGES = 4. join: 8 rows by 128 columns.
#include "double2.cuh"
#include "moduli.cuh"
#include "tma_store.cuh"
#include "wgmma_bytes.cuh"

constexpr int ROW = 128;           // bytes in a row of a box: the width of the swizzle
constexpr int EIGHT = 8 * ROW;     // bytes in eight rows: then the swizzle repeats
constexpr int DEPTH = 32;          // of k, in a product
constexpr int ROWS = 64;           // of A, in a product, and of C that a consumer computes
constexpr int GROUP = 128;         // threads in a warpgroup
constexpr int ROOMS = 2;           // boxes of C that a consumer fills in turn
constexpr int SPLITTERS = 128;     // threads that split a row
constexpr double ROUND = 0x1.8p52; // its last bit counts ones: x + ROUND - ROUND is the whole number nearest to x
static_assert(MODULI == 15, "moduli.cuh has 15");

// The bits that whole numbers may have.
__device__ inline int bits_of(int K)
{
    const int log_k = 32 - __clz(K - 1); // rounded up
    int bits = 0;
    // TODO(1): how many may they have, if a sum of K products must stay within PRODUCT / 2? See "Whole numbers".

    return bits;
}

// x modulo m, from -128 to 127. x is whole, and below 2^55.
__device__ inline signed char residue(double x, double m)
{
    double rest = x;
    // TODO(2): what remains of x? It must fit in a byte. Multiply by 1 / m: a division is slow. See "Residues".

    return (signed char)__double2loint(rest + ROUND); // the low byte of the whole number
}

// My block's row of X, K numbers: turn them into whole numbers, whole = number / scale, and those into residues.
extern "C" __global__ void __launch_bounds__(SPLITTERS)
split(const double *X, signed char *residues, double *scales, int rows, int K)
{
    __shared__ double largest[SPLITTERS / 32];
    const int row = blockIdx.x;
    const double *mine = &X[(size_t)row * K];

    // The row's largest number, and its exponent: the number is below 2^exponent.
    double most = 0;
    for (int k = threadIdx.x * 2; k < K; k += SPLITTERS * 2) {
        const double2 two = double2_at(mine[k]);
        most = fmax(most, fmax(fabs(two.x), fabs(two.y)));
    }
    for (int far = 16; far > 0; far /= 2)
        most = fmax(most, __shfl_xor_sync(~0u, most, far));
    if (threadIdx.x % 32 == 0)
        largest[threadIdx.x / 32] = most;
    __syncthreads();
    for (int warp = 0; warp < SPLITTERS / 32; warp++)
        most = fmax(most, largest[warp]);
    const int exponent = most > 0 ? ilogb(most) + 1 : 0;
    const int shift = bits_of(K) - exponent;
    if (threadIdx.x == 0)
        scales[row] = scalbn(1.0, -shift);

    const double scale = scalbn(1.0, shift);
    for (int k = threadIdx.x * 4; k < K; k += SPLITTERS * 4) {
        const double2 low = double2_at(mine[k]), high = double2_at(mine[k + 2]);
        const double whole[4] = {rint(low.x * scale), rint(low.y * scale), rint(high.x * scale), rint(high.y * scale)};
#pragma unroll
        for (int i = 0; i < MODULI; i++) {
            const double m = MODULUS[i];
            reinterpret_cast<char4 &>(residues[((size_t)i * rows + row) * K + k]) =
                make_char4(residue(whole[0], m), residue(whole[1], m), residue(whole[2], m), residue(whole[3], m));
        }
    }
}

// Where a tile is and how it is stored, its k side by side: 1,024 bytes from eight rows, or columns, to the next eight.
__device__ inline unsigned long long descriptor(const void *tile)
{
    unsigned long long bits = 0;
    bits |= __cvta_generic_to_shared(tile) / 16;
    bits |= (unsigned long long)(EIGHT / 16) << 32;
    bits |= 1ull << 62;
    return bits;
}

// The modulus of product `number`, and the first element of its tile of C. Tiles of BAND rows go through the columns
// together, as in lesson 18, one modulus after the other.
struct Corner {
    int modulus, row, col;
};
__device__ inline Corner corner(int number, int M, int N)
{
    const int cols = N / BN, tile = number % (M / BM * cols);
    const int band = tile / (BAND * cols) * BAND;
    const int rows = min(BAND, M / BM - band);
    return {number / (M / BM * cols), (band + tile % (BAND * cols) % rows) * BM, tile % (BAND * cols) / rows * BN};
}

// Lesson 22's kernel for int8, over the tiles of all moduli. Residues of A are MODULI matrices of M rows, one below the
// other, those of B MODULI matrices of N rows, and those of C of M rows.
extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * GROUP, 1)
gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B,
     const __grid_constant__ CUtensorMap map_C, int M, int N, int K)
{
    static_assert(BK == ROW && BM == CONSUMERS * ROWS, "a row of a tile is as wide as a box");
    struct Stage {
        signed char a[BM][BK];
        signed char b[BN][BK];
    };
    using Room = unsigned char[ROWS][ROW];
    extern __shared__ __align__(1024) unsigned char shared[]; // the swizzle depends on the address
    Stage *stages = reinterpret_cast<Stage *>(shared);
    Room *rooms = reinterpret_cast<Room *>(stages + STAGES); // ROOMS for each consumer
    __shared__ Barrier full[STAGES];                         // whose phases end when a K tile has arrived in the stage
    __shared__ Barrier empty[STAGES];                        // whose phases end when both consumers have multiplied it

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);
            init(empty[stage], CONSUMERS);
        }
        barriers_are_ready();
    }
    __syncthreads(); // the last barrier of the whole block

    const int role = threadIdx.x / GROUP;
    const int thread = threadIdx.x % GROUP; // of my warpgroup
    const int products = MODULI * (M / BM) * (N / BN);
    int step = 0; // K tiles are counted through all products
    if (role == CONSUMERS) {
        // Producer.
        registers_down<40>();
        if (thread == 0)
            for (int number = blockIdx.x; number < products; number += gridDim.x) {
                const Corner at = corner(number, M, N);
                int row = at.row, col = at.col; // of A's and of B's residues
                // TODO(3): where are those of this product's modulus? See "One kernel for all moduli".

                for (int k0 = 0; k0 < K; k0 += BK, step++) {
                    const int stage = step % STAGES;
                    await(empty[stage], step / STAGES % 2 ^ 1);
                    arrive_for(full[stage], sizeof(Stage));
                    copy_box(stages[stage].a, map_A, k0, row, full[stage]);
                    copy_box(stages[stage].b, map_B, k0, col, full[stage]);
                }
            }
        return;
    }

    // Consumer.
    registers_up<232>();
    const int warp = thread / 32, lane = thread % 32;
    for (int number = blockIdx.x; number < products; number += gridDim.x) {
        const Corner at = corner(number, M, N);
        int acc[BN / 2] = {};
        for (int k0 = 0; k0 < K; k0 += BK, step++) {
            const int stage = step % STAGES;
            await(full[stage], step / STAGES % 2);
            const Stage &from = stages[stage];
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < BK; k += DEPTH)
                wgmma_bytes(acc, descriptor(&from.a[role * ROWS][k]), descriptor(&from.b[0][k]), k0 + k > 0);
            wgmma_commit();
            wgmma_wait<1>();
            if (k0 > 0 && thread == 0)
                arrive(empty[(step - 1) % STAGES]);
        }
        wgmma_wait<0>();
        if (thread == 0)
            arrive(empty[(step - 1) % STAGES]);

        // Store the sums' residues: 128 columns at a time from registers to a room, and from there by TMA.
        const unsigned m = MODULUS[at.modulus];
#pragma unroll
        for (int s = 0; s < BN / ROW; s++) {
            Room &room = rooms[role * ROOMS + s % ROOMS];
            if (thread == 0)
                stores_have_read<ROOMS - 1>();
            group_barrier(1 + role);
#pragma unroll
            for (int i = 0; i < ROW / 2; i += 2) {
                const int row = warp * 16 + i / 2 % 2 * 8 + lane / 4;
                const int col = i / 4 * 8 + lane % 4 * 2;
                const int *two = &acc[s * ROW / 2 + i];
                reinterpret_cast<uchar2 &>(room[row][(col / 16 ^ row % 8) * 16 + col % 16]) =
                    make_uchar2(sum_residue(two[0], m), sum_residue(two[1], m));
            }
            stores_see_shared();
            group_barrier(1 + role);
            if (thread == 0) {
                store_box(map_C, at.col + s * ROW, at.modulus * M + at.row + role * ROWS, room);
                stores_commit();
            }
        }
    }
    if (thread == 0)
        stores_have_read<0>();
}

// Four numbers of C for each thread, from their residues.
extern "C" __global__ void __launch_bounds__(256)
join(const unsigned char *residues, const double *A_scales, const double *B_scales, double *C, int M, int N)
{
    const int row = blockIdx.y * 8 + threadIdx.y;
    const int col = (blockIdx.x * 32 + threadIdx.x) * 4;

    // The sum of residues times weights, in parts. Each part is exact.
    double sums[4][3] = {};
#pragma unroll
    for (int i = 0; i < MODULI; i++) {
        const uchar4 four = reinterpret_cast<const uchar4 &>(residues[((size_t)i * M + row) * N + col]);
        const double r[4] = {(double)four.x, (double)four.y, (double)four.z, (double)four.w};
        // TODO(4): what does this residue add to the sums? See "The way back".
    }

    const double2 left = double2_at(B_scales[col]), right = double2_at(B_scales[col + 2]);
    const double B_scale[4] = {left.x, left.y, right.x, right.y};
    double c[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        double(&sum)[3] = sums[j];
        // TODO(5): other numbers have the residues of this sum, too. Which one is the answer? See "The way back".

        c[j] = ((sum[0] * 0x1p39 + sum[1]) * 0x1p39 + sum[2]) * A_scales[row] * B_scale[j];
    }
    double *to = &C[(size_t)row * N + col];
    double2_at(to[0]) = make_double2(c[0], c[1]);
    double2_at(to[2]) = make_double2(c[2], c[3]);
}
