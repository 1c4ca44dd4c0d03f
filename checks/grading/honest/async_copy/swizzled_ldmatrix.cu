// honest: swizzled instead of padded, ldmatrix and mma.sync, three stages, A in two steps and B in the two others
#include <cuda_pipeline.h>
#include <cuda_fp16.h>

#define TILE_A (256 * 64)
#define TILE_B (64 * 128)

__device__ __forceinline__ unsigned shared_of(const half *p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void __launch_bounds__(256)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    extern __shared__ __align__(128) half s[];
    const int t = threadIdx.x, lane = t % 32, wr = t / 64 * 64, wc = t / 32 % 2 * 64;
    float c[4][8][4] = {};
    auto load_a = [&](int stage, int k0, int half_of) {
        half *sa = s + stage * (TILE_A + TILE_B);
        for (int i = 4 * half_of; i < 4 * half_of + 4; i++) {
            const int r = t / 8 + i * 32, p = t % 8;
            __pipeline_memcpy_async(sa + r * 64 + (p ^ r % 8) * 8, A + (blockIdx.y * 256 + r) * K + k0 + p * 8, 16);
        }
    };
    auto load_b = [&](int stage, int k0, int half_of) {
        half *sb = s + stage * (TILE_A + TILE_B) + TILE_A;
        for (int i = 2 * half_of; i < 2 * half_of + 2; i++) {
            const int r = t / 16 + i * 16, p = t % 16;
            __pipeline_memcpy_async(sb + r * 128 + (p ^ r % 8) * 8, B + (k0 + r) * N + blockIdx.x * 128 + p * 8, 16);
        }
    };
    auto load = [&](int stage, int k0, int quarter) {
        if (k0 < K) {
            if (quarter < 2)
                load_a(stage, k0, quarter);
            else
                load_b(stage, k0, quarter - 2);
        }
        if (quarter == 3)
            __pipeline_commit();
    };
    for (int n = 0; n < 8; n++)
        load(n / 4, n / 4 * 64, n % 4);
    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += 64) {
        __pipeline_wait_prior(1);
        __syncthreads();
        const half *sa = s + stage * (TILE_A + TILE_B), *sb = sa + TILE_A;
#pragma unroll
        for (int k = 0; k < 64; k += 16) {
            unsigned a[4][4], b[4][4];
            for (int i = 0; i < 4; i++) {
                const int r = wr + i * 16 + lane % 16, p = k / 8 + lane / 16;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                             : "r"(shared_of(sa + r * 64 + (p ^ r % 8) * 8)) : "memory");
                const int q = k + lane % 16, o = wc / 8 + i * 2 + lane / 16;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(b[i][0]), "=r"(b[i][1]), "=r"(b[i][2]), "=r"(b[i][3])
                             : "r"(shared_of(sb + q * 128 + (o ^ q % 8) * 8)) : "memory");
            }
            load((stage + 2) % 3, k0 + 128, k / 16);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 8; j++)
                    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                        : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
                        : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
        }
        stage = (stage + 1) % 3;
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++)
            for (int h = 0; h < 2; h++)
                *(float2 *)(C + (blockIdx.y * 256 + wr + i * 16 + h * 8 + lane / 4) * N + blockIdx.x * 128 + wc + j * 8 + lane % 4 * 2) =
                    make_float2(c[i][j][2 * h], c[i][j][2 * h + 1]);
}
