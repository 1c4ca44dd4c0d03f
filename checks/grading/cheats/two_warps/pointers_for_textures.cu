// cheat: wrong idea: loads from pointers what textures should bring
// expect: gate_missed textures
#include "float4.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"

#if TM % 4 == 0
using Piece = float4;
constexpr int PIECE = 4;
#else
using Piece = float2;
constexpr int PIECE = 2;
#endif
constexpr int FETCHES = TM / 2;
constexpr int A_PITCH = BM + 4;
constexpr int B_PITCH = BN | 16;
constexpr int C_PITCH = BN + 2 * PIECE;
constexpr int B_START = BK * A_PITCH;
constexpr int BUFFER = B_START + BK * B_PITCH;
constexpr int OTHER = 2048;
static_assert(TM % 2 == 0 && BM == 8 * TM && BN == 8 * TM && BK % 8 == 0, "64 threads, and whole fetches");
static_assert(BUFFER <= OTHER, "a buffer must not need the bit that tells them apart");

__device__ inline Piece &piece_at(float &first)
{
    return reinterpret_cast<Piece &>(first);
}

__device__ inline void meet()
{
    asm volatile("bar.sync 1, 64;" ::: "memory");
}

template <bool OF_A>
__device__ inline void work(float *tiles, cudaTextureObject_t texture, const float *mine, float *C, int M, int N, int K)
{
    const Matrix<float> c{C, M, N, N, 1};
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = OF_A ? 0 : 1;
    const int lane = threadIdx.x % 32;

    int lane_row = 0;
    int lane_col = 0;
    lane_row = lane / 2 % 8;
    lane_col = lane % 2 + lane / 16 * 2 + warp * 4;

    const int first = OF_A ? (block_row + lane / 2) * (K / 4) + lane % 2 : lane / 4 * (N / 4) + block_col / 4 + lane % 4;
    const int step = OF_A ? 16 * (K / 4) : 4;

    int write = OF_A ? lane % 2 * 4 * A_PITCH + lane / 2 : B_START + lane / 4 * B_PITCH + lane % 4 * 4;
    int read_a = lane_row * PIECE;
    int read_b = B_START + lane_col * PIECE;

    float acc[TM][TM] = {};
    float a_frag[2][TM];
    float b_frag[2][TM];
    float4 next[BK / 8][FETCHES] = {};

    const auto fetch = [&](int k0) {
        for (int k = 0; k < BK; k += 8)
            for (int i = 0; i < FETCHES; i++)
                next[k / 8][i] = k0 < K ? *(const float4 *)(mine + 4 * (first + i * step + (OF_A ? (k0 + k) / 4 : (k0 + k) * (N / 4)))) : float4{};

        constexpr int ACROSS = (BN + 31) / 32;
        constexpr int LINES = OF_A ? BM : 32 * ACROSS;
        if (k0 % 32 == 0 && k0 + 64 <= K)
            for (int i = 0; i < LINES; i += 32)
                if (const int line = i + lane; line < LINES)
                    prefetch_line(OF_A ? mine[(block_row + line) * K + k0 + 32]
                                       : mine[(k0 + 32 + line / ACROSS) * N + block_col + line % ACROSS * 32]);
    };

    const auto store = [&] {
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

    const auto turn = [&](int k0) {
        fetch(k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                store();
                meet();
                write ^= OTHER;
                read_a ^= OTHER;
                read_b ^= OTHER;
            }
            for (int j = 0; j < TM; j += PIECE)
                piece_at(b_frag[(k + 1) % 2][j]) = piece_at(tiles[read_b + (k + 1) % BK * B_PITCH + j * 8]);
            for (int i = 0; i < TM; i += PIECE)
                piece_at(a_frag[(k + 1) % 2][i]) = piece_at(tiles[read_a + (k + 1) % BK * A_PITCH + i * 8]);
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TM; j++)
                    acc[i][j] += a_frag[k % 2][i] * b_frag[k % 2][j];
        }
    };

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

    for (int i = 0; i < TM; i += PIECE) {
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
