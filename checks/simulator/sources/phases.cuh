// Functions for mbarriers and bulk copies.
typedef unsigned long long u64;
#define AT(p) ((unsigned)__cvta_generic_to_shared(p))
__device__ void init(u64 *b, int n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(AT(b)), "r"(n) : "memory"); }
__device__ void made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void arrive(u64 *b) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(AT(b)) : "memory"); }
__device__ void expect(u64 *b, int n) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }"
                 :: "r"(AT(b)), "r"(n) : "memory"); }
__device__ bool over(u64 *b, unsigned parity) {
    unsigned yes;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(yes) : "r"(AT(b)), "r"(parity) : "memory");
    return yes; }
__device__ void wait(u64 *b, unsigned parity) { while (!over(b, parity)) {} }
__device__ void bulk_load(void *to, const void *from, int n, u64 *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(AT(to)), "l"(from), "r"(n), "r"(AT(b)) : "memory"); }
__device__ void bulk_store(void *to, const void *from, int n) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(AT(from)), "r"(n) : "memory"); }
__device__ void bulk_add(float *to, const void *from, int n) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 :: "l"(to), "r"(AT(from)), "r"(n) : "memory"); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void drain() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
