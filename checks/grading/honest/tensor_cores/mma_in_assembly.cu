// honest: leaves wmma alone and writes ldmatrix and mma.sync in assembly
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void __launch_bounds__(128)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) half sa[128 * 40];
    __shared__ __align__(16) half sb[32 * 136];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5, wr = (warp >> 1) * 64, wc = (warp & 1) * 64;
    const int ar = warp * 8 + (lane / 4 & 1) * 4 + lane / 8, ac = (lane & 3) * 8, br = t / 16, bc = t % 16 * 8;
    float c[4][8][4] = {};
    uint4 ra[4], rb[4];
#define GLOBAL(k0)                                                                                       \
    for (int i = 0; i < 4; i++) {                                                                        \
        ra[i] = *(const uint4 *)(A + (blockIdx.y * 128 + ar + i * 32) * K + (k0) + ac);                  \
        rb[i] = *(const uint4 *)(B + ((k0) + br + i * 8) * N + blockIdx.x * 128 + bc);                   \
    }
    GLOBAL(0)
    for (int k0 = 0; k0 < K; k0 += 32) {
        for (int i = 0; i < 4; i++) {
            *(uint4 *)(sa + (ar + i * 32) * 40 + ac) = ra[i];
            *(uint4 *)(sb + (br + i * 8) * 136 + bc) = rb[i];
        }
        __syncthreads();
        if (k0 + 32 < K) {
            GLOBAL(k0 + 32)
        }
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            unsigned a[4][4], b[4][4];
            for (int i = 0; i < 4; i++)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                             : "r"(at(sa + (wr + i * 16 + lane % 16) * 40 + k + lane / 16 * 8)) : "memory");
            for (int j = 0; j < 4; j++)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j][2]), "=r"(b[j][3])
                             : "r"(at(sb + (k + lane % 16) * 136 + wc + j * 16 + lane / 16 * 8)) : "memory");
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 8; j++)
                    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                        : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
                        : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++)
            for (int h = 0; h < 2; h++)
                *(float2 *)(C + (blockIdx.y * 128 + wr + i * 16 + h * 8 + lane / 4) * N + blockIdx.x * 128 + wc + j * 8 + lane % 4 * 2) =
                    make_float2(c[i][j][2 * h], c[i][j][2 * h + 1]);
}
