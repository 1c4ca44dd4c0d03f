// wgmma: a warpgroup, four warps whose first has a number divisible by 4, multiplies two tiles that are in shared memory
// and adds the product to its registers. The products run beside the threads, which wait for them by groups.
//
//   wgmma_fence()          before the first product, and whenever a thread has written d: the products see what it wrote
//   wgmma_bf16(d, a, b)    starts d += a * b: a is 64 x 16, b 16 x 128, 192 or 256, and d[64], [96] or [128] my sums
//   wgmma_commit()         the products that were started since the last commit are one group
//   wgmma_wait<N>()        waits until at most the N newest groups are still running
//   registers_down<N>()    leaves all but N registers of each of my warpgroup's threads to others; N is a multiple of 8
//   registers_up<N>()      waits for free registers until each thread of my warpgroup has N
//
// a and b are descriptors, which say where a tile is: lesson 18 explains them. All 128 threads call each of these together.
// Compute capability 9.0 alone has wgmma, and only code for sm_90a may use it: lesson.toml has `architecture`.
#pragma once

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "wgmma needs code for sm_90a"
#endif

__device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int NEWEST>
__device__ inline void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory");
}

template <int COUNT>
__device__ inline void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ inline void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// The numbers after the descriptors: add to d instead of replacing it, a and b as they are instead of negated, each row of
// a has its k side by side (0), each row of b its columns (1).
#define IN_OUT_8(i)                                                                                                    \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])

__device__ inline void wgmma_bf16(float (&d)[64], unsigned long long a, unsigned long long b)
{
    asm volatile("{ .reg .pred add; setp.eq.b32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, add, 1, 1, 0, 1; }"
                 : IN_OUT_8(0), IN_OUT_8(8), IN_OUT_8(16), IN_OUT_8(24),
                   IN_OUT_8(32), IN_OUT_8(40), IN_OUT_8(48), IN_OUT_8(56)
                 : "l"(a), "l"(b));
}

__device__ inline void wgmma_bf16(float (&d)[96], unsigned long long a, unsigned long long b)
{
    asm volatile("{ .reg .pred add; setp.eq.b32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
                 " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
                 " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
                 "%96, %97, add, 1, 1, 0, 1; }"
                 : IN_OUT_8(0), IN_OUT_8(8), IN_OUT_8(16), IN_OUT_8(24),
                   IN_OUT_8(32), IN_OUT_8(40), IN_OUT_8(48), IN_OUT_8(56),
                   IN_OUT_8(64), IN_OUT_8(72), IN_OUT_8(80), IN_OUT_8(88)
                 : "l"(a), "l"(b));
}

__device__ inline void wgmma_bf16(float (&d)[128], unsigned long long a, unsigned long long b)
{
    asm volatile("{ .reg .pred add; setp.eq.b32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
                 " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
                 " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95,"
                 " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111,"
                 " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, add, 1, 1, 0, 1; }"
                 : IN_OUT_8(0), IN_OUT_8(8), IN_OUT_8(16), IN_OUT_8(24),
                   IN_OUT_8(32), IN_OUT_8(40), IN_OUT_8(48), IN_OUT_8(56),
                   IN_OUT_8(64), IN_OUT_8(72), IN_OUT_8(80), IN_OUT_8(88),
                   IN_OUT_8(96), IN_OUT_8(104), IN_OUT_8(112), IN_OUT_8(120)
                 : "l"(a), "l"(b));
}
#undef IN_OUT_8
