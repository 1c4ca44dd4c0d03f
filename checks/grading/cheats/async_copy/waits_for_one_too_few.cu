// cheat: race: one group more than it may stays on its way
// expect: faulted, wrong_answer e
#include <cuda_pipeline.h>
#include <mma.h>

#include "matrix.cuh"

using namespace nvcuda;

extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int A_ROWS = THREADS / (BK / 8);
    constexpr int B_ROWS = THREADS / (BN / 8);
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the tiles must be whole rounds of copying");
    static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % 16 == 0, "a warp tile is whole fragments");
    static_assert(PAD % 8 == 0, "rows must start at multiples of 16 bytes");
    struct Stage {
        half a[BM][BK + PAD];
        half b[BK][BN + PAD];
    };
    extern __shared__ __align__(32) Stage stages[];

    const Matrix<const half> a{A, M, K, K, 1};
    const Matrix<const half> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int band = number / (BAND * gridDim.x) * BAND;
    const int rows = min(BAND, gridDim.y - band);
    const int block_row = (band + number % (BAND * gridDim.x) % rows) * BM;
    const int block_col = number % (BAND * gridDim.x) / rows * BN;

    const int warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM;
    const int warp_col = warp % (BN / WN) * WN;

    const int load_row_a = threadIdx.x / (BK / 8);
    const int load_col_a = threadIdx.x % (BK / 8) * 8;
    const int load_row_b = threadIdx.x / (BN / 8);
    const int load_col_b = threadIdx.x % (BN / 8) * 8;
    const Matrix<const half> a_mine = a.tile(block_row + load_row_a, load_col_a, BM, K);
    const Matrix<const half> b_mine = b.tile(load_row_b, block_col + load_col_b, K, BN);

    using A_Fragment = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
    using B_Fragment = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[WM / 16][WN / 16];
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 16; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

    const auto copy = [&](int stage, int k0) {
        for (int r = 0; r < BM; r += A_ROWS)
            __pipeline_memcpy_async(&stages[stage].a[load_row_a + r][load_col_a], &a_mine(r, k0), 16);
        for (int r = 0; r < BK; r += B_ROWS)
            __pipeline_memcpy_async(&stages[stage].b[load_row_b + r][load_col_b], &b_mine(k0 + r, 0), 16);
    };

    const auto multiply = [&](int stage) {
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            A_Fragment a_frag[WM / 16];
            B_Fragment b_frag[WN / 16];
            for (int i = 0; i < WM / 16; i++)
                wmma::load_matrix_sync(a_frag[i], &stages[stage].a[warp_row + 16 * i][k], BK + PAD);
            for (int j = 0; j < WN / 16; j++)
                wmma::load_matrix_sync(b_frag[j], &stages[stage].b[k][warp_col + 16 * j], BN + PAD);
            for (int i = 0; i < WM / 16; i++)
                for (int j = 0; j < WN / 16; j++)
                    wmma::mma_sync(acc[i][j], a_frag[i], b_frag[j], acc[i][j]);
        }
    };

    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage * BK < K)
            copy(stage, stage * BK);
        __pipeline_commit();
    }

    int now = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        multiply(now);
        if (k0 + (STAGES - 1) * BK < K)
            copy((now + STAGES - 1) % STAGES, k0 + (STAGES - 1) * BK);
        __pipeline_commit();
        now = (now + 1) % STAGES;
    }

    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 16; j++)
            wmma::store_matrix_sync(&c(block_row + warp_row + 16 * i, block_col + warp_col + 16 * j), acc[i][j], N,
                                    wmma::mem_row_major);
}
