// Micro-kernels behind the rules of gemm_lessons/engine/simulator/banks.py: one warp, PROBES shared-memory accesses, each
// its own machine instruction with its own address per lane. addresses[p * 32 + lane] is a byte offset; negative: the
// lane is switched off by a predicate. The profiler's per-instruction counters then give PROBES readings per launch.
#ifndef PROBES
#define PROBES 256
#endif

extern __shared__ __align__(128) unsigned char window[];

__device__ unsigned base() { return static_cast<unsigned>(__cvta_generic_to_shared(window)); }

#define GUARD "{ .reg .pred p; setp.ge.s32 p, %0, 0; @p "
#define PROBE(name, body) \
    extern "C" __global__ void name(const int *addresses, const int4 *source) { \
        const unsigned start = base(); \
        _Pragma("unroll") for (int p = 0; p < PROBES; ++p) { \
            const int offset = addresses[p * 32 + threadIdx.x]; \
            const unsigned at = start + offset; \
            body; \
        } \
    }

// A load whose result nobody reads is dropped by ptxas even when volatile is asked of the asm statement, so every
// loaded word is added up and, under a condition that never holds, stored.
#define KEEP(words) if (threadIdx.x == 99) *reinterpret_cast<volatile unsigned *>(window) = (words)

#define LOAD1(name, type) \
    PROBE(name, unsigned a = 0; \
          asm volatile("{ .reg .pred p; setp.ge.s32 p, %1, 0; @p ld.volatile.shared." type " %0, [%2]; }" \
                       : "+r"(a) : "r"(offset), "r"(at) : "memory"); KEEP(a))
#define LOAD2(name) \
    PROBE(name, unsigned a = 0; unsigned b = 0; \
          asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, 0; @p ld.volatile.shared.v2.u32 {%0, %1}, [%3]; }" \
                       : "+r"(a), "+r"(b) : "r"(offset), "r"(at) : "memory"); KEEP(a + b))
#define LOAD4(name) \
    PROBE(name, unsigned a = 0; unsigned b = 0; unsigned c = 0; unsigned d = 0; \
          asm volatile("{ .reg .pred p; setp.ge.s32 p, %4, 0; @p ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%5]; }" \
                       : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "r"(offset), "r"(at) : "memory"); KEEP(a + b + c + d))

LOAD1(load_1, "u8")
LOAD1(load_2, "u16")
LOAD1(load_4, "u32")
LOAD2(load_8)
LOAD4(load_16)
PROBE(store_1, asm volatile(GUARD "st.volatile.shared.u8 [%1], %0; }" :: "r"(offset), "r"(at) : "memory"))
PROBE(store_2, asm volatile(GUARD "st.volatile.shared.u16 [%1], %0; }" :: "r"(offset), "r"(at) : "memory"))
PROBE(store_4, asm volatile(GUARD "st.volatile.shared.u32 [%1], %0; }" :: "r"(offset), "r"(at) : "memory"))
PROBE(store_8, asm volatile(GUARD "st.volatile.shared.v2.u32 [%1], {%0, %0}; }" :: "r"(offset), "r"(at) : "memory"))
PROBE(store_16, asm volatile(GUARD "st.volatile.shared.v4.u32 [%1], {%0, %0, %0, %0}; }" :: "r"(offset), "r"(at) : "memory"))

// Other instructions that reach shared memory: ldmatrix (every lane gives an address, x1 and x2 use the first 8 and
// 16) and atomics.
PROBE(matrix_1, unsigned a;
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(at) : "memory"); KEEP(a))
PROBE(matrix_2, unsigned a; unsigned b;
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(at) : "memory");
      KEEP(a + b))
PROBE(matrix_4, unsigned a; unsigned b; unsigned c; unsigned d;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at) : "memory"); KEEP(a + b + c + d))
PROBE(matrix_4t, unsigned a; unsigned b; unsigned c; unsigned d;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at) : "memory"); KEEP(a + b + c + d))
PROBE(atomic_4, unsigned a = 0;
      asm volatile("{ .reg .pred p; setp.ge.s32 p, %1, 0; @p atom.shared.add.u32 %0, [%2], %1; }"
                   : "+r"(a) : "r"(offset), "r"(at) : "memory"); KEEP(a))
PROBE(reduce_4, asm volatile(GUARD "red.shared.add.u32 [%1], %0; }" :: "r"(offset), "r"(at) : "memory"))
