// TMA: one thread requests a box of a matrix. The hardware copies it to shared memory: it computes the addresses, swizzles
// the rows and counts the bytes. Compute capability 9.0 and later. A CUtensorMap describes the layout of the matrix and the
// size of a box. The host makes it (lesson.toml, [tensor_maps]), and the kernel takes it as a parameter by value.
//
//   copy_box(to, map, col, row, barrier)      requests the box whose first element is (row, col), and does not wait
//
// A Barrier is in shared memory and has phases. A phase ends when as many threads have arrived as init said, and all
// announced bytes have been written. Then the next phase begins. Phases have the parities 0, 1, 0, 1, and so on.
//
//   init(barrier, count)           by one thread, before any use; then barriers_are_ready() and __syncthreads()
//   arrive(barrier)                arrives, and does not wait
//   arrive_for(barrier, bytes)     arrives, and announces bytes of this phase
//   await(barrier, parity)         waits until the phase of this parity is over
//
// Lesson 18 explains them.
#pragma once

#include <cuda.h> // CUtensorMap

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "the TMA came with compute capability 9.0"
#endif

using Barrier = unsigned long long;

__device__ inline void init(Barrier &barrier, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(&barrier)), "r"(count)
                 : "memory");
}

// The hardware that copies sees what this thread has stored to shared memory.
__device__ inline void barriers_are_ready()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void arrive(Barrier &barrier)
{
    asm volatile("{ .reg .b64 phase; mbarrier.arrive.shared.b64 phase, [%0]; }" ::"r"(
                     (unsigned)__cvta_generic_to_shared(&barrier))
                 : "memory");
}

__device__ inline void arrive_for(Barrier &barrier, unsigned bytes)
{
    asm volatile("{ .reg .b64 phase; mbarrier.arrive.expect_tx.shared.b64 phase, [%0], %1; }" ::"r"(
                     (unsigned)__cvta_generic_to_shared(&barrier)),
                 "r"(bytes)
                 : "memory");
}

__device__ inline void await(Barrier &barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "AGAIN%=: mbarrier.try_wait.parity.shared.b64 over, [%0], %1;\n"
                 "@!over bra AGAIN%=;\n"
                 "}" ::"r"((unsigned)__cvta_generic_to_shared(&barrier)),
                 "r"(parity)
                 : "memory");
}

__device__ inline void copy_box(void *to, const CUtensorMap &map, int col, int row, Barrier &barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(&map), "r"(col), "r"(row), "r"((unsigned)__cvta_generic_to_shared(&barrier))
                 : "memory");
}
