// Hopper's instructions for the kernels of this folder: wgmma on bf16 with fp32 sums, TMA stores, named barriers.
#pragma once
#include <cuda_bf16.h>

#include "tma.cuh"

constexpr int BK = 64; // columns of a tile of A or B: 128 bytes, swizzled

__device__ inline unsigned shared_address(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

// Describe a tile of BK columns, swizzled by 128 bytes: 1024 bytes from 8 rows to the next 8.
__device__ inline unsigned long long descriptor(const void *tile)
{
    return (shared_address(tile) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define REGISTERS_8(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define REGISTERS_64(d, i) \
    REGISTERS_8(d, i), REGISTERS_8(d, i + 8), REGISTERS_8(d, i + 16), REGISTERS_8(d, i + 24), REGISTERS_8(d, i + 32), \
        REGISTERS_8(d, i + 40), REGISTERS_8(d, i + 48), REGISTERS_8(d, i + 56)

// D += A B^T: 64 x 128 x 16.
__device__ inline void multiply(float (&d)[64], unsigned long long a, unsigned long long b)
{
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;"
                 " wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, 0, 0; }"
                 : REGISTERS_64(d, 0)
                 : "l"(a), "l"(b));
}

// D += A B^T: 64 x 256 x 16.
__device__ inline void multiply(float (&d)[128], unsigned long long a, unsigned long long b)
{
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;"
                 " wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, p, 1, 1, 0, 0; }"
                 : REGISTERS_64(d, 0), REGISTERS_64(d, 64)
                 : "l"(a), "l"(b));
}

// One tile of K: 64 rows of A, and as many rows of B as d has columns.
template <int COUNT>
__device__ inline void multiply_tile(float (&d)[COUNT], const __nv_bfloat16 *a, const __nv_bfloat16 *b)
{
#ifndef NO_PRODUCTS
    for (int k = 0; k < BK / 16; k++)
        multiply(d, descriptor(a) + 2 * k, descriptor(b) + 2 * k); // 32 bytes further
#endif
}

__device__ inline void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int COUNT>
__device__ inline void products_left()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory");
}

__device__ inline void named_barrier(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Store four 8 x 8 matrices of bf16; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void store_matrices(void *at, const unsigned (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(at)), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

__device__ inline void store_box(const CUtensorMap &map, const void *from, int col, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(col),
                 "r"(row), "r"(shared_address(from))
                 : "memory");
}

__device__ inline void stores_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ inline void stores_have_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ inline unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of the cluster meet.
__device__ inline void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

// Arrive at this barrier of another block of the cluster.
__device__ inline void arrive_at(Barrier &barrier, unsigned rank)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(&barrier)),
                 "r"(rank)
                 : "memory");
}

// copy_box to the same place in every block of the mask, and to the barrier there.
__device__ inline void copy_box_to_all(void *to, const CUtensorMap &map, int col, int row, Barrier &barrier,
                                       unsigned short mask)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
                 "l"(&map), "r"(col), "r"(row), "r"(shared_address(&barrier)), "h"(mask)
                 : "memory");
}

__device__ inline unsigned packed(float low, float high)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned &>(both);
}

// Store a warpgroup's 64 rows of C from registers: COUNT / 4 groups of 8 columns.
template <int COUNT>
__device__ inline void store_rows(const float (&d)[COUNT], __nv_bfloat16 *C, int row0, int col0, int N)
{
    const int t = threadIdx.x % 128, row = row0 + t / 32 * 16 + t % 32 / 4, col = col0 + t % 4 * 2;
    for (int i = 0; i < COUNT / 4; i++)
        for (int half = 0; half < 2; half++)
            *reinterpret_cast<unsigned *>(&C[(long long)(row + 8 * half) * N + col + 8 * i]) =
                packed(d[4 * i + 2 * half], d[4 * i + 2 * half + 1]);
}
