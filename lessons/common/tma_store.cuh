// TMA stores: one thread requests that the hardware copies a box from shared memory to a matrix. As with copy_box, a
// CUtensorMap describes the matrix, the box and its swizzle. Parts outside the matrix are not stored.
//
//   stores_see_shared()                 what this thread has stored to shared memory is visible to the TMA
//   store_box(map, col, row, from)      requests that the box goes to (row, col), and does not wait
//   stores_commit()                     the stores requested since the last commit are one group
//   stores_have_read<N>()               waits until all but the N newest groups of this thread have read shared memory
//   group_barrier(number)               a barrier of 128 threads: number 1 to 15; number 0 is __syncthreads()
//
// Lesson 20 explains them.
#pragma once

#include "tma.cuh"

__device__ inline void stores_see_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void store_box(const CUtensorMap &map, int col, int row, const void *from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(col),
                 "r"(row), "r"((unsigned)__cvta_generic_to_shared(from))
                 : "memory");
}

__device__ inline void stores_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

template <int NEWEST>
__device__ inline void stores_have_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(NEWEST) : "memory");
}

__device__ inline void group_barrier(int number)
{
    asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}
