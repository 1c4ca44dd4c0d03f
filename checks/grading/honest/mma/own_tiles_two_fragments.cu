// honest: writes all of it in one function, xor on bytes, three stages, fragments of the next step loaded before the products
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#define LDSM(R, ADDR, T)                                                                                           \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" T ".shared.b16 {%0,%1,%2,%3}, [%4];"                              \
                 : "=r"((R)[0]), "=r"((R)[1]), "=r"((R)[2]), "=r"((R)[3]) : "r"(ADDR) : "memory")

extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    extern __shared__ __align__(128) char bytes[];
    constexpr int SA = 256 * 128, SB = 64 * 256, STEP = SA + SB;
    const unsigned base = (unsigned)__cvta_generic_to_shared(bytes);
    const int t = threadIdx.x, lane = t & 31, wr = t / 64 * 64, wc = t / 32 % 2 * 64;
    const int row0 = blockIdx.y * 256, col0 = blockIdx.x * 128;
    float d[4][8][4];
    for (int i = 0; i < 128; i++)
        d[i / 32][i / 4 % 8][i % 4] = 0.0f;

    auto stage_in = [&](int s, int k0) {
        if (k0 < K) {
            for (int i = 0; i < 8; i++) {
                const int r = t / 8 + 32 * i, b = t % 8 * 16;
                __pipeline_memcpy_async(bytes + s * STEP + r * 128 + (b ^ (r & 7) << 4), A + (row0 + r) * K + k0 + b / 2, 16);
            }
            for (int i = 0; i < 4; i++) {
                const int r = t / 16 + 16 * i, b = t % 16 * 16;
                __pipeline_memcpy_async(bytes + s * STEP + SA + r * 256 + (b ^ (r & 7) << 4), B + (k0 + r) * N + col0 + b / 2, 16);
            }
        }
        __pipeline_commit();
    };
    unsigned a[2][4][4], b[2][4][4];
    auto fragments = [&](int to, int s, int k) {
        for (int i = 0; i < 4; i++) {
            const int r = wr + i * 16 + (lane & 15);
            LDSM(a[to][i], base + s * STEP + r * 128 + ((k * 2 + (lane >> 4) * 16) ^ (r & 7) << 4), "");
        }
        for (int j = 0; j < 4; j++) {
            const int r = k + (lane & 15);
            LDSM(b[to][j], base + s * STEP + SA + r * 256 + ((wc * 2 + j * 32 + (lane >> 4) * 16) ^ (r & 7) << 4), ".trans");
        }
    };
    stage_in(0, 0);
    stage_in(1, 64);
    for (int k0 = 0, s = 0; k0 < K; k0 += 64, s = s == 2 ? 0 : s + 1) {
        __pipeline_wait_prior(1);
        __syncthreads();
        stage_in((s + 2) % 3, k0 + 128);
        fragments(0, s, 0);
#pragma unroll
        for (int k = 0; k < 64; k += 16) {
            const int now = k / 16 % 2;
            if (k < 48)
                fragments(1 - now, s, k + 16);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 8; j++)
                    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                        : "+f"(d[i][j][0]), "+f"(d[i][j][1]), "+f"(d[i][j][2]), "+f"(d[i][j][3])
                        : "r"(a[now][i][0]), "r"(a[now][i][1]), "r"(a[now][i][2]), "r"(a[now][i][3]),
                          "r"(b[now][j / 2][j % 2 * 2]), "r"(b[now][j / 2][j % 2 * 2 + 1]));
        }
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++) {
            float *c = C + (row0 + wr + i * 16 + lane / 4) * N + col0 + wc + j * 8 + lane % 4 * 2;
            *(float2 *)c = make_float2(d[i][j][0], d[i][j][1]);
            *(float2 *)(c + 8 * N) = make_float2(d[i][j][2], d[i][j][3]);
        }
}
