// Clusters: neighbouring blocks that run at the same time and reach each other's shared memory. Compute capability 9.0 and
// later. Blocks of a cluster are numbered from 0: their ranks. A variable of another block is at the same place in that
// block's shared memory; its address there differs by the bits that name the block.
//
//   IN_CLUSTERS                                    before a kernel: CLUSTER neighbouring blocks are a cluster
//   cluster_rank()                                 the number of my block in its cluster
//   cluster_sync()                                 waits for all threads of all blocks of the cluster
//   barriers_are_ready_in_cluster()                the other blocks see the barriers that this thread has made
//   arrive_at(barrier, rank)                       arrives at this barrier of the block of this rank, and does not wait
//   share_box(to, map, col, row, barrier, mask)    a box for each block whose bit of mask is 1: to the same place in its
//                                                  shared memory, and its own barrier counts the bytes
//
// Where the host chooses CLUSTER = 1, they are __syncthreads, arrive and copy_box, which are faster for one block.
// Lesson 21 explains them.
#pragma once

#include "tma.cuh"

#if CLUSTER > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER)
#else
#define IN_CLUSTERS
#endif

__device__ inline unsigned cluster_rank()
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// `relaxed`: threads meet, and promise nothing about what they have stored. A promise to all blocks is slow.
__device__ inline void cluster_sync()
{
    if (CLUSTER == 1)
        __syncthreads();
    else
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
                     "barrier.cluster.wait.aligned;" ::: "memory");
}

__device__ inline void barriers_are_ready_in_cluster()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive_at(Barrier &barrier, unsigned rank)
{
    if (CLUSTER == 1)
        arrive(barrier);
    else
        asm volatile("{ .reg .b32 there;\n"
                     "mapa.shared::cluster.u32 there, %0, %1;\n"
                     "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(
                         (unsigned)__cvta_generic_to_shared(&barrier)),
                     "r"(rank)
                     : "memory");
}

__device__ inline void share_box(void *to, const CUtensorMap &map, int col, int row, Barrier &barrier, unsigned mask)
{
    if (CLUSTER == 1)
        copy_box(to, map, col, row, barrier);
    else
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                     "l"(&map), "r"(col), "r"(row), "r"((unsigned)__cvta_generic_to_shared(&barrier)),
                     "h"((unsigned short)mask)
                     : "memory");
}
