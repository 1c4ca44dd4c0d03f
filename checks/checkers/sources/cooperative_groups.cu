// Cooperative groups whose barriers and copies order what threads store.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void block_sum(const int *x, int *y) {
    __shared__ int part[8];
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int v = x[block.group_index().x * block.size() + block.thread_rank()];
    for (int d = warp.size() / 2; d > 0; d /= 2) v += warp.shfl_down(v, d);
    if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = v;
    SYNC;
    if (block.thread_rank() == 0)
        for (int i = 0; i < warp.meta_group_size(); i++) y[block.group_index().x] += part[i];
}
extern "C" __global__ void coalesced(const int *x, int *y) {
    const int i = cg::this_thread_block().thread_rank();
    if (x[i] % 3) return;
    auto active = cg::coalesced_threads();
    y[i] = 100 * active.size() + active.thread_rank();
}
extern "C" __global__ void labelled(const int *x, int *y) {
    auto mine = cg::labeled_partition(cg::tiled_partition<32>(cg::this_thread_block()), x[threadIdx.x] % 4);
    y[threadIdx.x] = 100 * mine.size() + mine.thread_rank();
}
extern "C" __global__ void whole_grid(int *x, int *y) {
    cg::grid_group grid = cg::this_grid();
    const int i = grid.thread_rank();
    x[i] = i;
    grid.sync();
    y[i] = x[grid.size() - 1 - i];
}
extern "C" __global__ void large_tiles(const int *x, int *y) {
    __shared__ cg::block_tile_memory<256> memory;
    auto tile = cg::tiled_partition<128>(cg::this_thread_block(memory));
    y[threadIdx.x] = cg::reduce(tile, x[threadIdx.x], cg::plus<int>());
    tile.sync();
}