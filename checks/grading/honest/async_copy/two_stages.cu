// honest: two stages only: wait, meet, then in each step copy a part of the next tile and multiply
#include <cuda_pipeline_primitives.h>
#include <mma.h>
using namespace nvcuda::wmma;

struct __align__(32) Buffers {
    half a[2][BM][BK + 8];
    half b[2][BK][BN + 8];
};

extern "C" __global__ void gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    extern __shared__ char raw[];
    Buffers &s = *reinterpret_cast<Buffers *>(raw);
    const unsigned tid = threadIdx.x, warp = tid >> 5, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    fragment<accumulator, 16, 16, 16, float> sum[4][4];
    for (int n = 0; n < 16; n++)
        fill_fragment(sum[n / 4][n % 4], 0.0f);

    for (int k0 = -BK, turn = 1; k0 < K; k0 += BK, turn ^= 1) {
        if (k0 >= 0) {
            __pipeline_wait_prior(0);
            __syncthreads();
        }
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            if (k0 + BK < K) {
                for (unsigned i = tid + k * BM / 8; i < (k + 16) * BM / 8; i += 256)
                    __pipeline_memcpy_async(&s.a[turn ^ 1][i / (BK / 8)][i % (BK / 8) * 8], A + (row0 + i / (BK / 8)) * K + k0 + BK + i % (BK / 8) * 8, 16);
                for (unsigned i = tid + k * BN / 8; i < (k + 16) * BN / 8; i += 256)
                    __pipeline_memcpy_async(&s.b[turn ^ 1][i / (BN / 8)][i % (BN / 8) * 8], B + (k0 + BK + i / (BN / 8)) * N + col0 + i % (BN / 8) * 8, 16);
            }
            if (k0 >= 0) {
                fragment<matrix_a, 16, 16, 16, half, row_major> a[4];
                fragment<matrix_b, 16, 16, 16, half, row_major> b;
                for (int i = 0; i < 4; i++)
                    load_matrix_sync(a[i], &s.a[turn][warp / 2 * 64 + i * 16][k], BK + 8);
                for (int j = 0; j < 4; j++) {
                    load_matrix_sync(b, &s.b[turn][k][warp % 2 * 64 + j * 16], BN + 8);
                    for (int i = 0; i < 4; i++)
                        mma_sync(sum[i][j], a[i], b, sum[i][j]);
                }
            }
        }
        __pipeline_commit();
    }
    for (int n = 0; n < 16; n++)
        store_matrix_sync(&C[(row0 + warp / 2 * 64 + n / 4 * 16) * N + col0 + warp % 2 * 64 + n % 4 * 16], sum[n / 4][n % 4], N, mem_row_major);
}
