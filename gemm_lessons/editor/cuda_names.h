// For clangd alone, on a machine without C++ headers: the names of CUDA C++ that the lessons use, declared and no more.
#pragma once
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define assert(condition) ((void)(condition))

typedef __SIZE_TYPE__ size_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint, uint32_t;
typedef unsigned long long uint64_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;

#include <__clang_cuda_builtin_vars.h>

#define VECTORS(type, name, align2, align4) \
    struct name##1 { type x; }; \
    struct __align__(align2) name##2 { type x, y; }; \
    struct name##3 { type x, y, z; }; \
    struct __align__(align4) name##4 { type x, y, z, w; }; \
    __device__ name##1 make_##name##1(type x); \
    __device__ name##2 make_##name##2(type x, type y); \
    __device__ name##3 make_##name##3(type x, type y, type z); \
    __device__ name##4 make_##name##4(type x, type y, type z, type w);
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)
VECTORS(int, int, 8, 16)
VECTORS(unsigned, uint, 8, 16)
VECTORS(char, char, 2, 4)
VECTORS(unsigned char, uchar, 2, 4)
#undef VECTORS
struct dim3 {
    unsigned x, y, z;
    __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1);
    __host__ __device__ dim3(uint3 from);
};

extern "C" {
__device__ int printf(const char *format, ...);
__device__ float fmaf(float a, float b, float c);
__device__ float fminf(float a, float b);
__device__ float fmaxf(float a, float b);
__device__ float fabsf(float x);
__device__ float sqrtf(float x);
__device__ float rsqrtf(float x);
__device__ float expf(float x);
__device__ float __fmaf_rn(float a, float b, float c);
__device__ double fma(double a, double b, double c);
__device__ double fmin(double a, double b);
__device__ double fmax(double a, double b);
__device__ double fabs(double x);
__device__ double rint(double x);
__device__ double scalbn(double x, int exponent);
__device__ int ilogb(double x);
__device__ int __double2loint(double x);
__device__ int __clz(int x);
__device__ unsigned __umulhi(unsigned x, unsigned y);
__device__ int __dp4a(int a, int b, int c);
__device__ int __popc(unsigned x);
__device__ unsigned __float_as_uint(float x);
__device__ float __uint_as_float(unsigned x);
__device__ unsigned __byte_perm(unsigned x, unsigned y, unsigned which);
__device__ void __syncwarp(unsigned mask = 0xffffffffu);
__device__ void __threadfence();
__device__ long long clock64();
__device__ size_t __cvta_generic_to_global(const void *generic);
__device__ size_t __cvta_generic_to_shared(const void *generic);
}
__device__ int min(int a, int b);
__device__ int max(int a, int b);
template <typename T> __device__ T __ldg(const T *from);
template <typename T> __device__ void __stcs(T *to, T value);
template <typename T> __device__ T atomicAdd(T *to, T value);
template <typename T> __device__ T __shfl_sync(unsigned mask, T value, int lane, int width = 32);
template <typename T> __device__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32);
template <typename T> __device__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32);
template <typename T> __device__ T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32);
