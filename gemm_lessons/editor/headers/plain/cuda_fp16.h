// For clangd alone, on a machine without C++ headers: the names of cuda_fp16.h that the lessons use.
#pragma once

struct __half {
    __half() = default;
    __device__ __half(float value);
    __device__ operator float() const;
    unsigned short bits;
};
struct __half2 {
    __half x, y;
};
typedef __half half;
typedef __half2 half2;
__device__ half __float2half(float value);
__device__ half __float2half_rn(float value);
__device__ float __half2float(half value);
__device__ half2 __floats2half2_rn(float x, float y);
__device__ half2 __halves2half2(half x, half y);
__device__ half2 __half2half2(half value);
__device__ half2 __hfma2(half2 a, half2 b, half2 c);
__device__ half __hfma(half a, half b, half c);
