// For clangd alone, on a machine without C++ headers: the names of cuda_pipeline.h that the lessons use.
#pragma once

__device__ void __pipeline_memcpy_async(void *to, const void *from, size_t size, size_t zeros = 0);
__device__ void __pipeline_commit();
__device__ void __pipeline_wait_prior(size_t newest);
