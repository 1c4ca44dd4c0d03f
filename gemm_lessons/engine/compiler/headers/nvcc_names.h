// Included before every kernel file: names that nvcc's implicit cuda_runtime.h brings along and NVRTC's does not.
#pragma once
namespace nvcc_names {
template <typename T> struct Wide {};
#define NVCC_NAMES_WIDE(T) template <> struct Wide<T> { typedef double type; };
NVCC_NAMES_WIDE(bool) NVCC_NAMES_WIDE(char) NVCC_NAMES_WIDE(signed char) NVCC_NAMES_WIDE(unsigned char)
NVCC_NAMES_WIDE(short) NVCC_NAMES_WIDE(unsigned short) NVCC_NAMES_WIDE(int) NVCC_NAMES_WIDE(unsigned)
NVCC_NAMES_WIDE(long) NVCC_NAMES_WIDE(unsigned long) NVCC_NAMES_WIDE(long long) NVCC_NAMES_WIDE(unsigned long long)
NVCC_NAMES_WIDE(float) NVCC_NAMES_WIDE(double)
#undef NVCC_NAMES_WIDE
}
// Integers, and numbers of two types: in double, as with GCC. pow(float, int) is NVRTC's, in float: use it with a warning.
template <typename T, typename U>
__device__ inline decltype(typename nvcc_names::Wide<T>::type() + typename nvcc_names::Wide<U>::type()) pow(T x, U y)
{
    return pow(double(x), double(y));
}
__attribute__((deprecated("nvcc computes it in double"))) __device__ float pow(float, int);
#include <limits.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <sys/types.h>
#define register  // nvcc takes the old word and ignores it
// What nvcc takes because GCC, its host compiler, does.
#define __asm asm
#define __asm__ asm
#define __const const
#define __extension__
#define __signed__ signed
#define __typeof__(...) nvcc_names::Plain<decltype(__VA_ARGS__)>::type
#define typeof(...) __typeof__(__VA_ARGS__)
#define __builtin_popcount(x) __popc(x)
#define __builtin_popcountll(x) __popcll(x)
#define __builtin_clz(x) __clz(x)
#define __builtin_clzll(x) __clzll(x)
#define __builtin_ffs(x) __ffs(x)
#define __builtin_memcpy(to, from, bytes) memcpy(to, from, bytes)
#define __builtin_memset(to, value, bytes) memset(to, value, bytes)
#define __builtin_sqrtf(x) sqrtf(x)
#define __builtin_fabsf(x) fabsf(x)
#if __CUDA_ARCH__ >= 900 // templates: cuda_device_runtime_api.h, if a file includes it, has functions of these names
template <typename = void> __device__ inline void cudaGridDependencySynchronize()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
template <typename = void> __device__ inline void cudaTriggerProgrammaticLaunchCompletion()
{
    asm volatile("griddepcontrol.launch_dependents;");
}
#endif
namespace nvcc_names {
template <typename T> struct Plain { typedef T type; };
template <typename T> struct Plain<T &> { typedef T type; };
template <typename T> struct Plain<T &&> { typedef T type; };
}
