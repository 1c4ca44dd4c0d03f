// honest: knows NVIDIA's samples: warps as tiles of fragments, skewed shared memory, C through shared memory at the end
#include <mma.h>
using namespace nvcuda;

#define SKEW_HALF 16
#define CHUNK 32

extern "C" __global__ void __launch_bounds__(128)
gemm(const half *A, const half *B, float *D, int M, int N, int K)
{
    __shared__ __align__(32) half shmem_a[128][CHUNK + 8];
    __shared__ __align__(32) half shmem_b[CHUNK][128 + SKEW_HALF / 2];
    const unsigned warpId = threadIdx.x / 32, laneId = threadIdx.x % 32;
    const size_t block_i = blockIdx.y * 128, block_j = blockIdx.x * 128;
    const int wi = warpId / 2 * 64, wj = warpId % 2 * 64;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            wmma::fill_fragment(c[i][j], 0.0f);
    int4 va[4], vb[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        va[i] = *((const int4 *)&A[(block_i + warpId * 32 + i * 8 + laneId / 4 % 2 * 4 + laneId / 8) * K] + laneId % 4);
        vb[i] = *((const int4 *)&B[(warpId * 8 + i * 2 + laneId / 16) * N + block_j] + laneId % 16);
    }
    for (int tile_k = 0; tile_k < K; tile_k += CHUNK) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            *((int4 *)&shmem_a[warpId * 32 + i * 8 + laneId / 4 % 2 * 4 + laneId / 8][0] + laneId % 4) = va[i];
            *((int4 *)&shmem_b[warpId * 8 + i * 2 + laneId / 16][0] + laneId % 16) = vb[i];
        }
        __syncthreads();
        if (tile_k + CHUNK < K) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                va[i] = *((const int4 *)&A[(block_i + warpId * 32 + i * 8 + laneId / 4 % 2 * 4 + laneId / 8) * K + tile_k + CHUNK] + laneId % 4);
                vb[i] = *((const int4 *)&B[(tile_k + CHUNK + warpId * 8 + i * 2 + laneId / 16) * N + block_j] + laneId % 16);
            }
        }
#pragma unroll
        for (int k_step = 0; k_step < CHUNK / 16; k_step++) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                wmma::load_matrix_sync(a, &shmem_a[wi + i * 16][k_step * 16], CHUNK + 8);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (i == 0)
                        wmma::load_matrix_sync(b[j], &shmem_b[k_step * 16][wj + j * 16], 128 + SKEW_HALF / 2);
                    wmma::mma_sync(c[i][j], a, b[j], c[i][j]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int t = 0; t < c[i][j].num_elements; t++)
                c[i][j].x[t] = 1.0f * c[i][j].x[t];
            wmma::store_matrix_sync(D + (block_i + wi + i * 16) * N + block_j + wj + j * 16, c[i][j], N, wmma::mem_row_major);
        }
}
