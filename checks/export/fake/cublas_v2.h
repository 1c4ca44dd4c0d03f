// The calls of cuBLAS that exported host code makes, column by column as cuBLAS counts, on the CPU.
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime.h>

using cublasStatus_t = struct FakeStatus;
struct FakeStatus {
    int status;
    operator int() const { return status; }
};
constexpr FakeStatus CUBLAS_STATUS_SUCCESS{0};
using cublasHandle_t = int *;
enum Operation { CUBLAS_OP_N, CUBLAS_OP_T };
enum DataType { CUDA_R_16F, CUDA_R_32F };
enum { CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT };

inline cublasStatus_t cublasCreate(cublasHandle_t *handle) { return {cudaMalloc(handle, 4)}; }
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) { return {cudaFree(handle)}; }

template <typename In, typename Out>
cublasStatus_t fake_gemm(Operation op_a, Operation op_b, int m, int n, int k, const In *a, int lda, const In *b, int ldb, Out *c, int ldc)
{
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float sum = 0.0f;
            for (int l = 0; l < k; l++)
                sum += (float)a[op_a == CUBLAS_OP_N ? i + l * lda : l + i * lda] * (float)b[op_b == CUBLAS_OP_N ? l + j * ldb : j + l * ldb];
            c[i + j * ldc] = (Out)sum;
        }
    return {0};
}

inline cublasStatus_t cublasSgemm(cublasHandle_t, Operation op_a, Operation op_b, int m, int n, int k, const float *, const float *a, int lda, const float *b, int ldb, const float *, float *c, int ldc)
{
    return fake_gemm(op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc);
}

inline cublasStatus_t cublasGemmEx(cublasHandle_t, Operation op_a, Operation op_b, int m, int n, int k, const void *, const void *a, DataType, int lda, const void *b, DataType, int ldb, const void *, void *c, DataType, int ldc, int, int)
{
    return fake_gemm(op_a, op_b, m, n, k, (const __half *)a, lda, (const __half *)b, ldb, (float *)c, ldc);
}
