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
    // (1) Neighbours share a row, those two apart a column: so both loads of a k take the fewest wavefronts.
    lane_row = lane / 2 % 8;
    lane_col = lane % 2 + lane / 16 * 2 + warp * 4;

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
        // (2) Each lane fetches one texel. Beyond the matrix it gets zeros, or numbers that are not used: no `if` is needed.
        for (int k = 0; k < BK; k += 8)
            for (int i = 0; i < FETCHES; i++)
                next[k / 8][i] = tex1Dfetch<float4>(texture, first + i * step + (OF_A ? (k0 + k) / 4 : (k0 + k) * (N / 4)));

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
        // (3) A float4 of A is four k of a row, stored to four rows. A float4 of B is stored as it is.
        for (int k = 0; k < BK; k += 8)
            for (int i = 0; i < FETCHES; i++)
                if (OF_A) {
                    tiles[write + (k + 0) * A_PITCH + i * 16] = next[k / 8][i].x;
                    tiles[write + (k + 1) * A_PITCH + i * 16] = next[k / 8][i].y;
                    tiles[write + (k + 2) * A_PITCH + i * 16] = next[k / 8][i].z;
                    tiles[write + (k + 3) * A_PITCH + i * 16] = next[k / 8][i].w;
                } else {
                    float4_at(tiles[write + k * B_PITCH + i * 16]) = next[k / 8][i];
                }
    };

    // One iteration: multiply the tile at k0, whose first fragments are loaded, while the next one arrives.
    const auto turn = [&](int k0) {
        fetch(k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                store();
                meet();
                // (4) The other buffer, for writing and for reading.
                write ^= OTHER;
                read_a ^= OTHER;
                read_b ^= OTHER;
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
        // (5) Row r of lane_row's square goes to row r * 8 + lane_row, so that lanes have no bank conflicts.
        meet();
        for (int r = 0; r < PIECE; r++)
            for (int j = 0; j < TM; j += PIECE)
                piece_at(tiles[(r * 8 + lane_row) * C_PITCH + lane_col * PIECE + j * 8]) = piece_at(acc[i + r][j]);
        meet();
        for (int n = 0; n < 16 * PIECE * TM; n += 64) {
            const int at = (n + threadIdx.x) / (BN / 4);
            const int col = (n + threadIdx.x) % (BN / 4) * 4;
            const int row = i * 8 + at % 8 * PIECE + at / 8;
            float4_at(c(block_row + row, block_col + col)) = float4_at(tiles[at * C_PITCH + col]);
        }
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
