// For clangd alone, on a machine without CUDA: the name of cuda.h that the lessons use.
#pragma once

typedef struct CUtensorMap_st {
    unsigned long long opaque[16];
} __attribute__((aligned(64))) CUtensorMap;
