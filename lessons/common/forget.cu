// How many bits do the tensor core's sums of fp8 keep? Lesson 22 runs this:
//
//   forget    adds equal products, 32 k at a time, and stores the sum after 1,024, 4,096, 16,384 and 32,768 of them
//   promote   does the same, but every 128 k it adds the tensor core's sum to a float
//
// ONE: the byte that all of A and B are, in e4m3. 0x38 is 1.0, 0x39 is 1.125.
#include "tma_store.cuh"
#include "wgmma.cuh"

__device__ float sums[4], exact[4];

__device__ inline void multiply(float (&d)[4], unsigned long long a, unsigned long long b)
{
    asm volatile("{ .reg .pred add; setp.eq.b32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, add, 1, 1; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(b));
}

__device__ inline unsigned long long descriptor(const void *tile)
{
    return __cvta_generic_to_shared(tile) / 16 | 64ull << 32 | 1ull << 62;
}

__device__ inline void add_up(int every)
{
    __shared__ __align__(1024) unsigned char a[64][128], b[8][128];
    for (int i = threadIdx.x; i < 64 * 128; i += 128)
        a[i / 128][i % 128] = b[i / 128 % 8][i % 128] = ONE;
    stores_see_shared();
    __syncthreads();

    const float one = __uint_as_float((ONE / 8 + 120) << 23 | ONE % 8 << 20); // e4m3's exponent is ONE / 8 - 7
    float total = 0.0f, d[4] = {};
    for (int k = 32; k <= 32768; k += 32) {
        wgmma_fence();
        multiply(d, descriptor(a), descriptor(b));
        wgmma_commit();
        wgmma_wait<0>();
        if (k % every == 0) { // promote
            total += d[0];
            d[0] = d[1] = d[2] = d[3] = 0.0f;
        }
        for (int i = 0; i < 4; i++)
            if (threadIdx.x == 0 && k == (i == 3 ? 32768 : 1024 << 2 * i)) {
                sums[i] = total + d[0];
                exact[i] = one * one * k;
            }
    }
}

extern "C" __global__ void forget()
{
    add_up(1 << 30);
}

extern "C" __global__ void promote()
{
    add_up(128);
}
