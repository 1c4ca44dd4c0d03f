// For clangd alone, on a machine without C++ headers: the names of cuda_bf16.h that the lessons use.
#pragma once

struct __nv_bfloat16 {
    unsigned short bits;
};
