// PTX of asynchronous copies and matrices as macros, so that each stands in the line that uses it.
#pragma once
typedef unsigned long long mbarrier;
#define AT(p) ((unsigned)__cvta_generic_to_shared(p))
#define MAKE(b, n) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(AT(b)), "r"(n) : "memory")
#define MADE() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define ARRIVE(b) \
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(AT(b)) : "memory")
#define EXPECT(b, n) \
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(AT(b)), "r"(n) \
                 : "memory")
#define WAIT(b, parity) \
    do { \
        unsigned over_; \
        do \
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" \
                         : "=r"(over_) : "r"(AT(b)), "r"((unsigned)(parity)) : "memory"); \
        while (!over_); \
    } while (0)
#define LOAD(to, from, n, b) \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" \
                 ::"r"(AT(to)), "l"(from), "r"(n), "r"(AT(b)) : "memory")
#define STORE(to, from, n) \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(AT(from)), "r"(n) : "memory")
#define COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define DRAIN() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define COPY(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(AT(to)), "l"(from) : "memory")
#define COPY_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPY_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#define MATRICES(r, p) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(AT(p)) : "memory")
#define BACK(p, r) \
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%4], {%0, %1, %2, %3};" \
                 ::"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(AT(p)) : "memory")
#define PRODUCT(d, a, b) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}," \
                 " {%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
// A tile of 256 floats, and who I am.
#define TILE __shared__ __align__(128) float tile[256]; const int t = threadIdx.x
#define FULL __shared__ mbarrier full; TILE; \
    if (t == 0) { MAKE(&full, 1); MADE(); } \
    __syncthreads()
#define KERNELS \
    extern "C" __global__ void broken(const float *A, float *C) { go<true>(A, C); } \
    extern "C" __global__ void fixed(const float *A, float *C) { go<false>(A, C); }
