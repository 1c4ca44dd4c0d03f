// honest: takes mma.m16n8k8 twice, keeps sums as an array of a struct, and walks through the products in a snake
#include <cuda_fp16.h>

struct Frag { float x[4]; };

__device__ __forceinline__ void cp(unsigned to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
__device__ __forceinline__ void product(Frag &f, unsigned a0, unsigned a1, unsigned b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(f.x[0]), "+f"(f.x[1]), "+f"(f.x[2]), "+f"(f.x[3]) : "r"(a0), "r"(a1), "r"(b));
}

extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const half *A, const half *B, float *C, int M, int N, int K)
{
    extern __shared__ __align__(1024) half mem[];
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int wm = warp / 2 * 64, wn = warp % 2 * 64;
    Frag sum[32] = {};
    auto to_shared = [](const half *p) { return (unsigned)__cvta_generic_to_shared(p); };
    auto tile_a = [&](int s) { return mem + s * (BM + BN) * BK; };
    auto tile_b = [&](int s) { return mem + s * (BM + BN) * BK + BM * BK; };
    auto copy = [&](int s, int k0) {
        for (int i = tid; i < BM * BK / 8; i += 256)
            cp(to_shared(tile_a(s) + i / 8 * 64 + (i % 8 ^ i / 8 % 8) * 8), A + (m0 + i / 8) * K + k0 + i % 8 * 8);
        for (int i = tid; i < BK * BN / 8; i += 256)
            cp(to_shared(tile_b(s) + i / 16 * 128 + (i % 16 ^ i / 16 % 8) * 8), B + (k0 + i / 16) * N + n0 + i % 16 * 8);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    copy(0, 0);
    for (int k0 = 0, s = 0; k0 < K; k0 += BK, s ^= 1) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        if (k0 + BK < K)
            copy(s ^ 1, k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            unsigned a[4][4], b[4][4];
            for (int i = 0; i < 4; i++) {
                const int r = wm + i * 16 + lane % 16, q = k + lane % 16;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                             : "r"(to_shared(tile_a(s) + r * 64 + ((k / 8 + lane / 16) ^ r % 8) * 8)) : "memory");
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(b[i][0]), "=r"(b[i][1]), "=r"(b[i][2]), "=r"(b[i][3])
                             : "r"(to_shared(tile_b(s) + q * 128 + ((wn / 8 + i * 2 + lane / 16) ^ q % 8) * 8)) : "memory");
            }
            for (int half_k = 0; half_k < 2; half_k++)
                for (int n = 0; n < 32; n++) {
                    const int i = n / 8, j = i % 2 ? 7 - n % 8 : n % 8;
                    product(sum[i * 8 + j], a[i][half_k * 2], a[i][half_k * 2 + 1], b[j / 2][j % 2 * 2 + half_k]);
                }
        }
    }
    for (int n = 0; n < 32; n++)
        for (int h = 0; h < 2; h++)
            reinterpret_cast<float2 *>(C + (m0 + wm + n / 8 * 16 + h * 8 + lane / 4) * N + n0 + wn + n % 8 * 8)[lane % 4] =
                make_float2(sum[n].x[2 * h], sum[n].x[2 * h + 1]);
}
