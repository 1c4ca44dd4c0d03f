// cheat: hidden loads: bulk copies to shared memory that every thread waits for at once
// expect: gate_missed tiles_waited_for
#include "float4.cuh"
#include "matrix.cuh"
#include "prefetch.cuh"


__device__ inline void init(unsigned long long &barrier) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"((unsigned)__cvta_generic_to_shared(&barrier)) : "memory"); asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void announce(unsigned long long &barrier, unsigned bytes) { asm volatile("{ .reg .b64 phase; mbarrier.arrive.expect_tx.shared.b64 phase, [%0], %1; }" ::"r"((unsigned)__cvta_generic_to_shared(&barrier)), "r"(bytes) : "memory"); }
__device__ inline void await(unsigned long long &barrier, unsigned parity) { asm volatile("{\n.reg .pred over;\nAGAIN%=: mbarrier.try_wait.parity.shared.b64 over, [%0], %1;\n@!over bra AGAIN%=;\n}" ::"r"((unsigned)__cvta_generic_to_shared(&barrier)), "r"(parity) : "memory"); }
__device__ inline void bulk(void *to, const void *from, unsigned bytes, unsigned long long &barrier) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(&barrier)) : "memory"); }
extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (BK / 4); // rows of a_tile that the block copies in one pass
    constexpr int B_ROWS = THREADS / (BN / 4); // rows of b_tile
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the tiles must be whole passes of copying");
    static_assert((WM / TM) * (WN / TN) == 32, "a warp tile is 32 thread tiles");
    static_assert(AHEAD % 32 == 0, "prefetch takes whole lines");
    __shared__ __align__(16) float As[2][BK][BM + 4]; // two buffers
    __shared__ __align__(16) float Bs[2][BK][BN];
    __shared__ __align__(16) float raw[BM][12];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0)
        init(full);
    __syncthreads();

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which elements of C are mine? My warp's tile, and in it TM x TN in pieces of 4 x 4.
    constexpr int LANE_COLS = WN / TN;
    constexpr int ROW_STEP = WM / (TM / 4);
    constexpr int COL_STEP = WN / (TN / 4);
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;
    const int lane_row = lane / (2 * LANE_COLS) * 2 + lane % 2;
    const int lane_col = lane / 2 % LANE_COLS;
    const int thread_row = warp_row + lane_row * 4;
    const int thread_col = warp_col + lane_col * 4;

    // Which float4 of the tiles do I copy? A row of a_tile has BK / 4 of them, a row of b_tile BN / 4.
    const int load_row_a = threadIdx.x / (BK / 4);
    const int load_col_a = threadIdx.x % (BK / 4) * 4;
    const int load_row_b = threadIdx.x / (BN / 4);
    const int load_col_b = threadIdx.x % (BN / 4) * 4;

    // Walk along K, one tile at a time. The body of lesson 08's loop, in three pieces:
    float acc[TM][TN] = {};
    float4 a_next[BM / A_ROWS];
    float4 b_next[BK / B_ROWS];
    const Matrix<const float> a_mine = a.tile(block_row + load_row_a, load_col_a, BM, K);
    const Matrix<const float> b_mine = b.tile(load_row_b, block_col + load_col_b, K, BN);

    // global memory -> registers: issues the loads; no warp waits until it uses a_next and b_next
    const auto fetch = [&](int k0) {
        // (1) Load one float4 of each pass into its own registers. Nothing here uses them, so no warp waits.
        if (threadIdx.x == 0) {
            announce(full, (BM + BN) * BK * 4);
            for (int r = 0; r < BM; r++)
                bulk(raw[r], &a(block_row + r, k0), BK * 4, full);
            for (int r = 0; r < BK; r++)
                bulk(Bs[k0 / BK % 2][r], &b(k0 + r, block_col), BN * 4, full);
        }
        await(full, k0 / BK % 2);
        for (int r = 0; r < BM; r += A_ROWS)
            a_next[r / A_ROWS] = float4_at(raw[load_row_a + r][load_col_a]);

        // Every AHEAD of K: prefetch the next AHEAD into the L2 cache.
        if (k0 % AHEAD == 0 && k0 + 2 * AHEAD <= K) {
            prefetch<THREADS>(a.tile(block_row, k0 + AHEAD, BM, AHEAD));
            prefetch<THREADS>(b.tile(k0 + AHEAD, block_col, AHEAD, BN));
        }
    };

    // registers -> shared memory
    const auto store = [&](int buffer) {
        // (2) The values are used here. A is transposed, as in lesson 08.
        for (int r = 0; r < BM; r += A_ROWS) {
            As[buffer][load_col_a + 0][load_row_a + r] = a_next[r / A_ROWS].x;
            As[buffer][load_col_a + 1][load_row_a + r] = a_next[r / A_ROWS].y;
            As[buffer][load_col_a + 2][load_row_a + r] = a_next[r / A_ROWS].z;
            As[buffer][load_col_a + 3][load_row_a + r] = a_next[r / A_ROWS].w;
        }
    };

    // shared memory -> products
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            for (int j = 0; j < TN; j += 4)
                float4_at(b_frag[j]) = float4_at(Bs[buffer][k][thread_col + j / 4 * COL_STEP]);
            for (int i = 0; i < TM; i += 4)
                float4_at(a_frag[i]) = float4_at(As[buffer][k][thread_row + i / 4 * ROW_STEP]);

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
    };

    // One turn: multiply the tile in buffer `now` while the tile at k0 arrives for the other buffer.
    const auto turn = [&](int now, int k0) {
        // (3) No thread reads buffer 1 - now in this turn, so it can be filled without another barrier.
        multiply(now);
        fetch(k0);
        store(1 - now);
        __syncthreads();
    };

    // (4) Nothing hides the loads of the first tile.
    fetch(0);
    store(0);
    __syncthreads();

    // (5) Two turns per iteration, so that the buffer numbers are constants.
    int k0 = BK;
    for (; k0 + BK < K; k0 += 2 * BK) {
        turn(0, k0);
        turn(1, k0 + BK);
    }
    if (k0 < K) {
        turn(0, k0);
        multiply(1);
    } else {
        multiply(0);
    }

    // Write my elements back.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = block_row + thread_row + i / 4 * ROW_STEP + i % 4;
            const int col = block_col + thread_col + j / 4 * COL_STEP;
            float4_at(c(row, col)) = float4_at(acc[i][j]);
        }
}
