// Micro-kernels behind the sector rule of gemm_lessons/engine/simulator/banks.py: one warp accesses global memory with three
// patterns, pattern p 64**p times, so that one launch's totals of requests and sectors hold three readings as the
// digits of a number in base 64 (digit 0 plus the loads of the patterns themselves, which are known).
// offset negative: the lane does not take part. `zero` is 0; it keeps the compiler from hoisting or dropping accesses.
#define PROBE(name, body) \
    extern "C" __global__ void name(const int *addresses, unsigned char *window, int zero) { \
        unsigned sum = 0; \
        _Pragma("unroll 1") for (int p = 0; p < 3; ++p) { \
            const int offset = addresses[p * 32 + threadIdx.x]; \
            const int times = 1 << (6 * p); \
            if (offset >= 0) { \
                _Pragma("unroll 1") for (int i = 0; i < times; ++i) { \
                    unsigned char *at = window + offset + i * zero; \
                    body \
                } \
            } \
            __syncwarp(); \
        } \
        if (zero) *reinterpret_cast<unsigned *>(window) = sum; \
    }

#define LOAD1(name, cache, type, kind, constraint) \
    PROBE(name, kind a; asm volatile("ld.global" cache type " %0, [%1];" : constraint(a) : "l"(at) : "memory"); sum += a;)
#define LOAD2(name, cache) \
    PROBE(name, unsigned a; unsigned b; \
          asm volatile("ld.global" cache ".v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(at) : "memory"); sum += a + b;)
#define LOAD4(name, cache) \
    PROBE(name, unsigned a; unsigned b; unsigned c; unsigned d; \
          asm volatile("ld.global" cache ".v4.u32 {%0, %1, %2, %3}, [%4];" \
                       : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(at) : "memory"); sum += a + b + c + d;)

LOAD1(global_load_1, "", ".u8", unsigned, "=r")
LOAD1(global_load_2, "", ".u16", unsigned short, "=h")
LOAD1(global_load_4, "", ".u32", unsigned, "=r")
LOAD2(global_load_8, "")
LOAD4(global_load_16, "")
LOAD1(cached_load_4, ".nc", ".u32", unsigned, "=r")
LOAD4(cached_load_16, ".nc")
PROBE(global_store_1, asm volatile("st.global.u8 [%0], %1;" :: "l"(at), "r"(i) : "memory");)
PROBE(global_store_2, asm volatile("st.global.u16 [%0], %1;" :: "l"(at), "h"((short)i) : "memory");)
PROBE(global_store_4, asm volatile("st.global.u32 [%0], %1;" :: "l"(at), "r"(i) : "memory");)
PROBE(global_store_8, asm volatile("st.global.v2.u32 [%0], {%1, %1};" :: "l"(at), "r"(i) : "memory");)
PROBE(global_store_16, asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" :: "l"(at), "r"(i) : "memory");)
