// For clangd alone, which cannot read NVIDIA's mma.h: the names that the lessons use, declared and no more.
#pragma once
#include <cuda_fp16.h>

namespace nvcuda {
namespace wmma {
struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int m, int n, int k, typename Type, typename Layout = void>
struct fragment {
    static constexpr int num_elements = 16;
    Type x[num_elements];
};
template <typename Fragment, typename Type>
__device__ void fill_fragment(Fragment &fragment, const Type &value);
template <typename Fragment, typename Type>
__device__ void load_matrix_sync(Fragment &fragment, const Type *from, unsigned ldm);
template <typename Fragment, typename Type>
__device__ void load_matrix_sync(Fragment &fragment, const Type *from, unsigned ldm, layout_t layout);
template <typename Fragment, typename Type>
__device__ void store_matrix_sync(Type *to, const Fragment &fragment, unsigned ldm, layout_t layout);
template <typename Sum, typename A, typename B>
__device__ void mma_sync(Sum &d, const A &a, const B &b, const Sum &c, bool saturate = false);
} // namespace wmma
} // namespace nvcuda
