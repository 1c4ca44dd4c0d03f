// Micro-kernels behind the constants of gemm_lessons/gpus.py: what one instruction costs, in clocks.
// Every kernel writes, by block, the clocks between the first and the last of its STEPS; the host divides.
typedef unsigned int u32;
typedef unsigned long long u64;

#define STEPS 4096
#define BEGIN __syncthreads(); const long long begin = clock64();
#define END(value) \
    __syncthreads(); \
    const long long end = clock64(); \
    if (threadIdx.x == 0) clocks[blockIdx.x] = end - begin; \
    if ((value) == 0x7fffffff) sink[threadIdx.x] = (value);
#define ARGUMENTS long long *clocks, u32 *sink, u32 *data, int stride, int words

__device__ u32 shared_address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

extern "C" __global__ void empty(ARGUMENTS) {}

// ---- latencies: each step needs the one before; one warp ----
extern "C" __global__ void latency_ffma(ARGUMENTS)
{
    float x = stride, y = words;
    BEGIN
#pragma unroll 64
    for (int i = 0; i < STEPS; i++)
        asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
    END(__float_as_uint(x))
}

extern "C" __global__ void latency_integer(ARGUMENTS)
{
    u32 x = stride, y = words;
    BEGIN
#pragma unroll 64
    for (int i = 0; i < STEPS; i++)
        asm volatile("lop3.b32 %0, %0, %1, %1, 0x96;" : "+r"(x) : "r"(y));
    END(x)
}

extern "C" __global__ void latency_multiply(ARGUMENTS)
{
    u32 x = stride, y = words;
    BEGIN
#pragma unroll 64
    for (int i = 0; i < STEPS; i++)
        asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(x) : "r"(y));
    END(x)
}

extern "C" __global__ void latency_shared_32(ARGUMENTS)
{
    __shared__ u32 chain[32];
    chain[threadIdx.x] = shared_address(&chain[threadIdx.x]);
    u32 at = shared_address(&chain[threadIdx.x]);
    BEGIN
#pragma unroll 64
    for (int i = 0; i < STEPS; i++)
        asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(at));
    END(at)
}

extern "C" __global__ void latency_shared_128(ARGUMENTS)
{
    __shared__ __align__(16) u32 chain[128];
    for (int i = 0; i < 4; i++)
        chain[threadIdx.x * 4 + i] = shared_address(&chain[threadIdx.x * 4]);
    u32 at = shared_address(&chain[threadIdx.x * 4]), a, b, c;
    BEGIN
#pragma unroll 64
    for (int i = 0; i < STEPS; i++)
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%0];" : "+r"(at), "=r"(a), "=r"(b), "=r"(c));
    END(at)
}

// data[i] is the index of the next word of the chain; lane 0 walks alone
#define GLOBAL_CHAIN(name, cache) \
    extern "C" __global__ void name(ARGUMENTS) \
    { \
        u32 at = 0; \
        for (int i = 0; i < words; i++) \
            asm volatile("ld.global" cache ".u32 %0, [%1];" : "=r"(at) : "l"(data + at)); \
        BEGIN \
        for (int i = 0; i < STEPS; i++) \
            asm volatile("ld.global" cache ".u32 %0, [%1];" : "=r"(at) : "l"(data + at)); \
        END(at) \
    }
GLOBAL_CHAIN(latency_l1, "")
GLOBAL_CHAIN(latency_l2, ".cg")

// a chain of 128-bit loads of a whole warp, 512 bytes each
extern "C" __global__ void latency_l2_128(ARGUMENTS)
{
    u32 at = threadIdx.x * 4, a, b, c;
    BEGIN
    for (int i = 0; i < STEPS; i++) {
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(at), "=r"(a), "=r"(b), "=r"(c) : "l"(data + at));
        at += threadIdx.x * 4;
    }
    END(at)
}

extern "C" __global__ void latency_barrier(ARGUMENTS)
{
    BEGIN
#pragma unroll 64
    for (int i = 0; i < STEPS; i++)
        asm volatile("bar.sync 0;");
    END(0)
}

extern "C" __global__ void latency_branch(ARGUMENTS)
{
    int n = STEPS * 2 + words;
    BEGIN
    asm volatile("{ .reg .pred p; again: sub.s32 %0, %0, 1; setp.gt.s32 p, %0, 0; @p bra again; }" : "+r"(n));
    END(n)
}

// ---- throughput: all warps of a multiprocessor, independent steps ----
#define EIGHT(instruction, step) \
    instruction(0 * step) instruction(1 * step) instruction(2 * step) instruction(3 * step) \
    instruction(4 * step) instruction(5 * step) instruction(6 * step) instruction(7 * step)

#define SHARED_LOAD_32(offset) asm volatile("ld.volatile.shared.u32 %0, [%1+%2];" : "=r"(r) : "r"(at), "n"(offset)); x ^= r;
#define SHARED_THROUGHPUT(name, address, step, load) \
    extern "C" __global__ void __launch_bounds__(1024) name(ARGUMENTS) \
    { \
        __shared__ __align__(16) u32 tile[8192]; \
        for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = i; \
        const u32 lane = threadIdx.x % 32; \
        const u32 at = shared_address(tile) + (address); \
        u32 x = lane, r, s, t, u; \
        BEGIN \
        _Pragma("unroll 4") for (int i = 0; i < STEPS / 8; i++) { EIGHT(load, step) } \
        s = t = u = 0; \
        END(x + s + t + u) \
    }
#define SHARED_LOAD_128(offset) \
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4+%5];" : "=r"(r), "=r"(s), "=r"(t), "=r"(u) : "r"(at), "n"(offset)); \
    x ^= r;
#define SHARED_STORE_32(offset) asm volatile("st.volatile.shared.u32 [%0+%1], %2;" ::"r"(at), "n"(offset), "r"(x)); r = 0;
#define SHARED_STORE_128(offset) \
    asm volatile("st.volatile.shared.v4.u32 [%0+%1], {%2, %2, %2, %2};" ::"r"(at), "n"(offset), "r"(x)); r = 0;
SHARED_THROUGHPUT(shared_32, lane * 4, 128, SHARED_LOAD_32)
SHARED_THROUGHPUT(shared_32_uniform, 0, 128, SHARED_LOAD_32)
SHARED_THROUGHPUT(shared_32_two_ways, lane * 8, 256, SHARED_LOAD_32)
SHARED_THROUGHPUT(shared_128, lane * 16, 512, SHARED_LOAD_128)
SHARED_THROUGHPUT(shared_128_uniform, 0, 512, SHARED_LOAD_128)
SHARED_THROUGHPUT(shared_store_32, lane * 4, 128, SHARED_STORE_32)
SHARED_THROUGHPUT(shared_store_128, lane * 16, 512, SHARED_STORE_128)

#define GLOBAL_LOAD_32(offset) asm volatile("ld.global.u32 %0, [%1+%2];" : "=r"(r) : "l"(at), "n"(offset)); x ^= r;
#define GLOBAL_LOAD_128(offset) \
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4+%5];" : "=r"(r), "=r"(s), "=r"(t), "=r"(u) : "l"(at), "n"(offset)); \
    x ^= r;
#define GLOBAL_THROUGHPUT(name, address, step, load) \
    extern "C" __global__ void __launch_bounds__(1024) name(ARGUMENTS) \
    { \
        const u32 lane = threadIdx.x % 32; \
        const u32 *at = data + (address); \
        u32 x = lane, r, s, t, u; \
        BEGIN \
        _Pragma("unroll 4") for (int i = 0; i < STEPS / 8; i++) { EIGHT(load, step) at += words; } \
        s = t = u = 0; \
        END(x + s + t + u) \
    }
GLOBAL_THROUGHPUT(l1_32, lane, 128, GLOBAL_LOAD_32)
GLOBAL_THROUGHPUT(l1_32_uniform, 0, 128, GLOBAL_LOAD_32)
GLOBAL_THROUGHPUT(l1_32_lines, lane * 32 + stride, 4, GLOBAL_LOAD_32)
GLOBAL_THROUGHPUT(l1_32_two_lines, lane / 16 * 32 + lane % 16 + stride, 64, GLOBAL_LOAD_32)
GLOBAL_THROUGHPUT(l1_128, lane * 4, 512, GLOBAL_LOAD_128)

// as in lesson 02: a uniform and a coalesced load for every multiply-add
extern "C" __global__ void __launch_bounds__(1024) l1_pair(ARGUMENTS)
{
    const u32 lane = threadIdx.x % 32;
    const u32 *a = data + threadIdx.x / 32 * 64, *b = data + 4096 + lane;
    float acc = 0;
    BEGIN
#pragma unroll 2
    for (int i = 0; i < STEPS / 16; i++) {
        u32 x[8], y[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(x[j]) : "l"(a + j));
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(y[j]) : "l"(b + j * 32));
        }
#pragma unroll
        for (int j = 0; j < 8; j++)
            acc += __uint_as_float(x[j]) * __uint_as_float(y[j]);
        a += words;
        b += words;
    }
    END(__float_as_uint(acc))
}

extern "C" __global__ void __launch_bounds__(1024) ffma(ARGUMENTS)
{
    float acc[16], a = stride, b = words;
    for (int i = 0; i < 16; i++) acc[i] = i;
    BEGIN
#pragma unroll 16
    for (int i = 0; i < STEPS / 16; i++)
#pragma unroll
        for (int j = 0; j < 16; j++)
            asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc[j]) : "f"(a), "f"(b));
    float x = 0;
    for (int i = 0; i < 16; i++) x += acc[i];
    END(__float_as_uint(x))
}

// reads all of data (words), as many times as stride says; the host times it
extern "C" __global__ void bandwidth(ARGUMENTS)
{
    u32 x = 0;
    for (int round = 0; round < stride; round++)
        for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < (u64)words / 4; i += (u64)gridDim.x * blockDim.x) {
            u32 r, s, t, u;
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r), "=r"(s), "=r"(t), "=r"(u) : "l"(data + 4 * i));
            x ^= r ^ s ^ t ^ u;
        }
    if (x == 0x7fffffff) sink[threadIdx.x] = x;
}

// as in the tiled kernels: an outer product of 8 x 8 in registers, and beside it MORE for the next one
#define MIX(name, more) \
    extern "C" __global__ void name(ARGUMENTS) \
    { \
        __shared__ __align__(16) u32 tile[8192]; \
        for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = i; \
        const u32 lane = threadIdx.x % 32, uniform = shared_address(tile); \
        const u32 own32 = uniform + lane * 4, own128 = uniform + lane * 16; \
        u32 *global = data + lane * 4; \
        float a[8], b[8], acc[8][8]; \
        for (int i = 0; i < 8; i++) a[i] = stride + i, b[i] = words + i; \
        for (int i = 0; i < 64; i++) acc[i / 8][i % 8] = i + lane; \
        u32 r = 0, s = 0, t = 0, u = 0, x = lane; \
        BEGIN \
        _Pragma("unroll 1") for (int step = 0; step < STEPS / 64; step++) { \
            _Pragma("unroll") for (int i = 0; i < 8; i++) { \
                more \
                _Pragma("unroll") for (int j = 0; j < 8; j++) \
                    asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc[i][j]) : "f"(a[i]), "f"(b[j])); \
            } \
        } \
        float sum = 0; \
        for (int i = 0; i < 64; i++) sum += acc[i / 8][i % 8]; \
        END(__float_as_uint(sum) + r + s + t + u + x) \
    }
#define LDS_32(at, offset) asm volatile("ld.volatile.shared.u32 %0, [%1+%2];" : "=r"(r) : "r"(at), "n"(offset));
#define LDS_128(at, offset) \
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4+%5];" : "=r"(r), "=r"(s), "=r"(t), "=r"(u) : "r"(at), "n"(offset));
#define STS_128(at) asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(x));
#define LDG_128 asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r), "=r"(s), "=r"(t), "=r"(u) : "l"(global)); x ^= r; global += words;
#define LOGIC asm volatile("lop3.b32 %0, %0, %1, %1, 0x96;" : "+r"(x) : "r"(lane));
MIX(mix_nothing, )
MIX(mix_lds_128, if (i % 2 == 0) { LDS_128(own128, 0) })
MIX(mix_lds_128_uniform, if (i % 2 == 0) { LDS_128(uniform, 0) })
MIX(mix_lds_32, LDS_32(own32, 0) LDS_32(own32, 128))
MIX(mix_lds_32_uniform, LDS_32(uniform, 0) LDS_32(uniform, 128))
MIX(mix_lds_32_four, if (i % 2 == 0) { LDS_32(own32, 0) })
MIX(mix_sts_128, if (i % 2 == 0) { STS_128(own128) })
MIX(mix_ldg_128, if (i % 2 == 0) { LDG_128 })
MIX(mix_logic_four, if (i % 2 == 0) { LOGIC })
MIX(mix_logic_sixteen, LOGIC LOGIC)

// stores of a warp: side by side; 8 floats apart in two rows (as the lesson thread_tile does); 128 bits side by side
#define STORES(name, address, instruction) \
    extern "C" __global__ void name(ARGUMENTS) \
    { \
        const u32 lane = threadIdx.x % 32, x = lane; \
        u32 *mine = data + ((blockIdx.x * 32 + threadIdx.x / 32) << 14); \
        BEGIN \
        for (int i = 0; i < STEPS / 64; i++) { \
            u32 *to = mine + (address) + i * stride; \
            instruction \
        } \
        __threadfence(); \
        END(x) \
    }
STORES(store_32, lane, asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(x));)
STORES(store_32_apart, lane / 16 * 4096 + lane % 16 * 8, asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(x));)
STORES(store_128, lane * 4, asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to), "r"(x));)

// a block that lasts `words` clocks; with enough shared memory it is alone on its multiprocessor
extern "C" __global__ void waits(ARGUMENTS)
{
    extern __shared__ u32 room[];
    const long long start = clock64();
    while (clock64() - start < words) {
    }
    if (words < 0)
        sink[0] = room[0];
}
