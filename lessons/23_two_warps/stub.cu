// Lesson 23: two warps
// New idea: 64 threads, TM x TM sums each; warp 0 fetches A, warp 1 fetches B, through textures, each by a program of its own.
// Before:   lesson 09, 128 threads; each copies some of A and some of B. Its tile has one size for all matrices.
// Launch:   grid (N/BN, M/BM), block 64; BM = BN = 8 * TM; the host chooses TM = 8 with BK = 8, or TM = 6 or 4 with BK = 16.
#include "float4.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

// The sums of a thread are squares of PIECE x PIECE. A row or a column of one is one access.
#if TM % 4 == 0
using Piece = float4;
constexpr int PIECE = 4;
#else
using Piece = float2;
constexpr int PIECE = 2;
#endif
constexpr int FETCHES = TM / 2; // of 32 lanes, four floats each: 8 k of 8 * TM rows or columns
constexpr int A_PITCH = BM + 4;  // floats from one k to the next, chosen to avoid bank conflicts:
constexpr int B_PITCH = BN | 16; // 80, 48, 48
constexpr int C_PITCH = BN + 2 * PIECE;
constexpr int B_START = BK * A_PITCH; // a buffer is a tile of A, then one of B
constexpr int BUFFER = B_START + BK * B_PITCH;
constexpr int OTHER = 2048; // from buffer to buffer: one bit of an address says which
static_assert(TM % 2 == 0 && BM == 8 * TM && BN == 8 * TM && BK % 8 == 0, "64 threads, and whole fetches");
static_assert(BUFFER <= OTHER, "a buffer must not need the bit that tells them apart");

__device__ inline Piece &piece_at(float &first)
{
    return reinterpret_cast<Piece &>(first);
}

// Both warps wait here for each other. Each calls it from its own program, where __syncthreads() is not allowed.
__device__ inline void meet()
{
    asm volatile("bar.sync 1, 64;" ::: "memory");
}

// The whole program of one warp. Both compute; OF_A says whose tiles this one fetches, and `mine` is that matrix.
template <bool OF_A>
__device__ inline void work(float *tiles, cudaTextureObject_t texture, const float *mine, float *C, int M, int N, int K)
{
    const Matrix<float> c{C, M, N, N, 1};
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = OF_A ? 0 : 1;
    const int lane = threadIdx.x % 32;

    // Which sums are mine? Squares that are 8 * PIECE rows and columns apart; the first is at (lane_row, lane_col).
    int lane_row = 0;
    int lane_col = 0;
    // TODO(1): which of 8 x 8 squares is mine? Which lanes share a row, which a column? See "Who computes what?".

    // Where is what I fetch? A texel is four floats. Of A: two lanes for the 8 k of a row. Of B: four lanes for a row.
    const int first = OF_A ? (block_row + lane / 2) * (K / 4) + lane % 2 : lane / 4 * (N / 4) + block_col / 4 + lane % 4;
    const int step = OF_A ? 16 * (K / 4) : 4; // texels from one fetch to the next: 16 rows, or 16 columns

    // Where in shared memory do I write and read? In buffer 0, to begin with.
    int write = OF_A ? lane % 2 * 4 * A_PITCH + lane / 2 : B_START + lane / 4 * B_PITCH + lane % 4 * 4;
    int read_a = lane_row * PIECE;
    int read_b = B_START + lane_col * PIECE;

    float acc[TM][TM] = {};
    float a_frag[2][TM]; // of this k and of the next
    float b_frag[2][TM];
    float4 next[BK / 8][FETCHES] = {};

    // global memory -> registers, through the texture unit
    const auto fetch = [&](int k0) {
        // TODO(2): for every 8 k of the tile at k0, fetch texels into next: the first, and those step, 2 * step, ... on.

        // Every 32 of K: bring the next 32 as far as the L2 cache, by lines of 128 bytes, as in lesson 09.
        constexpr int ACROSS = (BN + 31) / 32; // lines in a row of B's tile
        constexpr int LINES = OF_A ? BM : 32 * ACROSS;
        if (k0 % 32 == 0 && k0 + 64 <= K)
            for (int i = 0; i < LINES; i += 32)
                if (const int line = i + lane; line < LINES)
                    prefetch_line(OF_A ? mine[(block_row + line) * K + k0 + 32]
                                       : mine[(k0 + 32 + line / ACROSS) * N + block_col + line % ACROSS * 32]);
    };

    // registers -> shared memory
    const auto store = [&] {
        // TODO(3): store next at `write`: a float4 of A to four rows, one k each; one of B as it is. Each i is 16 columns on.
    };

    // One iteration: multiply the tile at k0, whose first fragments are loaded, while the next one arrives.
    const auto turn = [&](int k0) {
        fetch(k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                store();
                meet();
                // TODO(4): go to the other buffer, for writing and for reading.
            }
            // The fragments of the next k, and then the products of this one.
            for (int j = 0; j < TM; j += PIECE)
                piece_at(b_frag[(k + 1) % 2][j]) = piece_at(tiles[read_b + (k + 1) % BK * B_PITCH + j * 8]);
            for (int i = 0; i < TM; i += PIECE)
                piece_at(a_frag[(k + 1) % 2][i]) = piece_at(tiles[read_a + (k + 1) % BK * A_PITCH + i * 8]);
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TM; j++)
                    acc[i][j] += a_frag[k % 2][i] * b_frag[k % 2][j];
        }
    };

    // Walk along K, one tile at a time.
    fetch(0);
    store();
    meet();
    write ^= OTHER;
    for (int j = 0; j < TM; j += PIECE)
        piece_at(b_frag[0][j]) = piece_at(tiles[read_b + j * 8]);
    for (int i = 0; i < TM; i += PIECE)
        piece_at(a_frag[0][i]) = piece_at(tiles[read_a + i * 8]);
    for (int k0 = 0; k0 < K; k0 += BK)
        turn(k0);

    // Write the sums back: PIECE rows of each lane at a time through shared memory, so that a warp stores whole rows.
    for (int i = 0; i < TM; i += PIECE) {
        // TODO(5): store the sums of these squares to `tiles` as rows of C, meet, and store rows to C, 16 bytes per lane.
    }
}

extern "C" __global__ void __launch_bounds__(64, BLOCKS_PER_SM)
gemm(cudaTextureObject_t tex4_A, cudaTextureObject_t tex4_B, const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int EXCHANGED = 8 * PIECE * C_PITCH;
    __shared__ __align__(16) float tiles[OTHER + BUFFER > EXCHANGED ? OTHER + BUFFER : EXCHANGED];
    if (threadIdx.x < 32)
        work<true>(tiles, tex4_A, A, C, M, N, K);
    else
        work<false>(tiles, tex4_B, B, C, M, N, K);
}
