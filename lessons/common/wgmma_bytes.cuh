// wgmma of numbers of one byte, and of tf32: lesson 22 explains them. What is said of wgmma_bf16 in wgmma.cuh holds here too.
//
//   wgmma_bytes(d, a, b, add)   starts d += a * b, or d = a * b if not `add`: a is 64 x 32 and b 32 x 128 or 256
//   wgmma_tf32(d, a, b, add)    the same for tf32: a is 64 x 8 and b 8 x 256
//
// If d is float [64] or [128], a and b are e4m3, and the sums keep fewer bits than a float has. If d is int [128], they are
// signed bytes, and the sums are exact.
//
// Both tiles have their k side by side: wgmma transposes numbers of two bytes only.
#pragma once

#include "wgmma.cuh"

#define IN_OUT(kind, i)                                                                                                \
    "+" #kind(d[i]), "+" #kind(d[i + 1]), "+" #kind(d[i + 2]), "+" #kind(d[i + 3]), "+" #kind(d[i + 4]),               \
        "+" #kind(d[i + 5]), "+" #kind(d[i + 6]), "+" #kind(d[i + 7])
#define LIST_64                                                                          \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"             \
    " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"   \
    " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"   \
    " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
#define LIST_128                                                                                         \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"                             \
    " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"                   \
    " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"                   \
    " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"                   \
    " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"                   \
    " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95,"                   \
    " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111,"       \
    " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "

__device__ inline void wgmma_bytes(float (&d)[64], unsigned long long a, unsigned long long b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 " LIST_64 "%64, %65, add, 1, 1; }"
                 : IN_OUT(f, 0), IN_OUT(f, 8), IN_OUT(f, 16), IN_OUT(f, 24),
                   IN_OUT(f, 32), IN_OUT(f, 40), IN_OUT(f, 48), IN_OUT(f, 56)
                 : "l"(a), "l"(b), "r"((int)add));
}

__device__ inline void wgmma_bytes(float (&d)[128], unsigned long long a, unsigned long long b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 " LIST_128 "%128, %129, add, 1, 1; }"
                 : IN_OUT(f, 0), IN_OUT(f, 8), IN_OUT(f, 16), IN_OUT(f, 24),
                   IN_OUT(f, 32), IN_OUT(f, 40), IN_OUT(f, 48), IN_OUT(f, 56),
                   IN_OUT(f, 64), IN_OUT(f, 72), IN_OUT(f, 80), IN_OUT(f, 88),
                   IN_OUT(f, 96), IN_OUT(f, 104), IN_OUT(f, 112), IN_OUT(f, 120)
                 : "l"(a), "l"(b), "r"((int)add));
}

__device__ inline void wgmma_bytes(int (&d)[128], unsigned long long a, unsigned long long b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 " LIST_128 "%128, %129, add; }"
                 : IN_OUT(r, 0), IN_OUT(r, 8), IN_OUT(r, 16), IN_OUT(r, 24),
                   IN_OUT(r, 32), IN_OUT(r, 40), IN_OUT(r, 48), IN_OUT(r, 56),
                   IN_OUT(r, 64), IN_OUT(r, 72), IN_OUT(r, 80), IN_OUT(r, 88),
                   IN_OUT(r, 96), IN_OUT(r, 104), IN_OUT(r, 112), IN_OUT(r, 120)
                 : "l"(a), "l"(b), "r"((int)add));
}
// The low 13 bits of a float are not read: it is truncated to tf32.
__device__ inline void wgmma_tf32(float (&d)[128], unsigned long long a, unsigned long long b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 " LIST_128 "%128, %129, add, 1, 1; }"
                 : IN_OUT(f, 0), IN_OUT(f, 8), IN_OUT(f, 16), IN_OUT(f, 24),
                   IN_OUT(f, 32), IN_OUT(f, 40), IN_OUT(f, 48), IN_OUT(f, 56),
                   IN_OUT(f, 64), IN_OUT(f, 72), IN_OUT(f, 80), IN_OUT(f, 88),
                   IN_OUT(f, 96), IN_OUT(f, 104), IN_OUT(f, 112), IN_OUT(f, 120)
                 : "l"(a), "l"(b), "r"((int)add));
}
#undef IN_OUT
#undef LIST_64
#undef LIST_128
