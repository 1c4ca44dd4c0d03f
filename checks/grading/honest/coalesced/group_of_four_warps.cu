// honest: divides the block into groups of four warps, whose barriers lie in memory that CUDA reserves
#include <cooperative_groups.h>
#include "matrix.cuh"
namespace cg = cooperative_groups;
extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<128>(block);
    const int rank = tile.meta_group_rank() * 128 + tile.thread_rank();
    const int row = blockIdx.y * BM + rank / BN, col = blockIdx.x * BN + rank % BN;
    float acc = 0.0f;
    if (row < M && col < N)
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
    tile.sync();
    if (row < M && col < N)
        C[row * N + col] = acc;
}
