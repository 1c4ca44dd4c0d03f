// honest: never writes threadIdx: cooperative groups name the block, the warp and the lane
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const cg::thread_block block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const int row = block.group_index().y * BM + warp.meta_group_rank();
    const int col = block.group_index().x * BN + warp.thread_rank();
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}
