// The driver's interface is the host's; of its header, kernels need no more than this.
#pragma once
#define __cuda_cuda_h__ // CUDA's own file of this name, which its other headers include, adds nothing
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
typedef unsigned long long CUdeviceptr;
typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;

// What the host says when it makes a tensor map: templates of kernels name it, too.
#define CU_TM(name) CU_TENSOR_MAP_##name
typedef enum {
    CU_TM(DATA_TYPE_UINT8), CU_TM(DATA_TYPE_UINT16), CU_TM(DATA_TYPE_UINT32), CU_TM(DATA_TYPE_INT32),
    CU_TM(DATA_TYPE_UINT64), CU_TM(DATA_TYPE_INT64), CU_TM(DATA_TYPE_FLOAT16), CU_TM(DATA_TYPE_FLOAT32),
    CU_TM(DATA_TYPE_FLOAT64), CU_TM(DATA_TYPE_BFLOAT16), CU_TM(DATA_TYPE_FLOAT32_FTZ), CU_TM(DATA_TYPE_TFLOAT32),
    CU_TM(DATA_TYPE_TFLOAT32_FTZ), CU_TM(DATA_TYPE_16U4_ALIGN8B), CU_TM(DATA_TYPE_16U4_ALIGN16B), CU_TM(DATA_TYPE_16U6_ALIGN16B)
} CUtensorMapDataType;
typedef enum { CU_TM(INTERLEAVE_NONE), CU_TM(INTERLEAVE_16B), CU_TM(INTERLEAVE_32B) } CUtensorMapInterleave;
typedef enum {
    CU_TM(SWIZZLE_NONE), CU_TM(SWIZZLE_32B), CU_TM(SWIZZLE_64B), CU_TM(SWIZZLE_128B), CU_TM(SWIZZLE_128B_ATOM_32B),
    CU_TM(SWIZZLE_128B_ATOM_32B_FLIP_8B), CU_TM(SWIZZLE_128B_ATOM_64B)
} CUtensorMapSwizzle;
typedef enum {
    CU_TM(L2_PROMOTION_NONE), CU_TM(L2_PROMOTION_L2_64B), CU_TM(L2_PROMOTION_L2_128B), CU_TM(L2_PROMOTION_L2_256B)
} CUtensorMapL2promotion;
typedef enum { CU_TM(FLOAT_OOB_FILL_NONE), CU_TM(FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA) } CUtensorMapFloatOOBfill;
#undef CU_TM
