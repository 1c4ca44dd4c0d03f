// Constructs that kernels of other people have, one in each kernel.
#include <cuda_fp16.h>
#include <mma.h>

struct Table { int values[8]; int more; };
__device__ __noinline__ int at(const int *p, int i) { return p[i]; }
typedef int (*Function)(int);
__device__ int next(int x) { return x + 1; }
__device__ int twice(int x) { return 2 * x; }
__device__ Function functions[2] = {next, twice};
__device__ int numbers[6] = {10, 20, 30, 40, 50, 60};
__device__ int *second = numbers + 1;
__device__ int *ends[2] = {numbers, numbers + 5};
struct Named { char letter; const char *name; int length; };
__constant__ Named names[2] = {{'a', "alpha", 5}, {'b', "beta", 4}};

__global__ void aligned(int *x)
{
    __shared__ __align__(16384) int apart[32];
    apart[threadIdx.x] = x[threadIdx.x] + 1;
    x[threadIdx.x] = apart[threadIdx.x];
}
__global__ void warp_size(int *x) { x[threadIdx.x] = warpSize; }
__global__ void indexed(int *x, const __grid_constant__ Table t) { x[threadIdx.x] = t.values[x[threadIdx.x] & 7]; }
__global__ void pointed(int *x, const __grid_constant__ Table t)
{
    x[threadIdx.x] = at(t.values, threadIdx.x & 7) + 100 * at(&t.more, 0);
}
__global__ void pointers(int *x)
{
    const Named &n = names[threadIdx.x & 1];
    x[threadIdx.x] = second[0] + ends[threadIdx.x & 1][0] + n.name[threadIdx.x % n.length] + n.letter;
}
__global__ void strings(int *x) { x[threadIdx.x] = "text"[x[threadIdx.x] & 3]; }
__global__ void wide(long long *x)
{
    asm volatile("{ .reg .b128 q, r; mov.b128 q, {%0, %1}; mov.b128 r, q; .reg .b64 a, b; mov.b128 {a, b}, r;\n"
                 "st.global.b128 [%2], r; st.global.b64 [%2+16], b; ld.global.b128 q, [%2];\n"
                 "st.global.b128 [%2+32], q; }" :: "l"(x[0] + 5), "l"(7ll), "l"(x));
}
__global__ void clusters(int *x)
{
    int rank, blocks, block, of;
    asm("mov.u32 %0, %%cluster_ctarank; mov.u32 %1, %%cluster_nctarank;" : "=r"(rank), "=r"(blocks));
    asm("mov.u32 %0, %%clusterid.x; mov.u32 %1, %%nclusterid.x;" : "=r"(block), "=r"(of));
    x[32 * blockIdx.x + threadIdx.x] = rank + 10 * blocks + 100 * block + 1000 * of;
}
__global__ void environment(int *x)
{
    int value;
    asm("mov.u32 %0, %%envreg5;" : "=r"(value));
    x[0] = value;
}
__global__ void through_pointer(int *x) { x[0] = functions[x[0] & 1](3); }
__global__ void wide_exchange(long long *x)
{
    asm volatile("{ .reg .b128 q; mov.b128 q, {%0, %0}; atom.global.exch.b128 q, [%1], q; }" :: "l"(7ll), "l"(x));
}
__global__ void allocating(int *x) { int *p = (int *)malloc(4); x[0] = *p; }
