// Micro-kernels behind the rules of cp.async that writes zeros (engine/costs/copies.py). A block has one warp and makes
// one copy; pattern p is that of BASE^p blocks, so one sum of the profiler tells all of them apart.
// addresses[p * 32 + lane]: a byte offset in shared memory, negative where the lane is switched off; sources: one in
// global memory; sizes: bytes that the lane reads, the others of its target become zeros.
extern __shared__ __align__(128) unsigned char window[];

#define PROBE(name, how, width, set, last) \
    extern "C" __global__ void name(const int *addresses, const int *sources, const int *sizes, \
                                    const unsigned char *data) { \
        int p = 0; \
        for (unsigned block = blockIdx.x, blocks = 1; block >= blocks; ++p, blocks *= BASE) \
            block -= blocks; \
        const int offset = addresses[p * 32 + threadIdx.x], size = sizes[p * 32 + threadIdx.x]; \
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(window)) + offset; \
        const unsigned char *from = data + sources[p * 32 + threadIdx.x] + blockIdx.x % 4096 * 4096; \
        asm volatile("{ .reg .pred p, q; setp.ge.s32 p, %0, 0;" set \
                     " @p cp.async." how " [%1], [%2], " width ", " last "; }" \
                     :: "r"(offset), "r"(to), "l"(from), "r"(size) : "memory"); \
        asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory"); \
    }

PROBE(zeros_4, "ca.shared.global", "4", "", "%3")
PROBE(zeros_8, "ca.shared.global", "8", "", "%3")
PROBE(zeros_16, "ca.shared.global", "16", "", "%3")
PROBE(zeros_bypass_16, "cg.shared.global", "16", "", "%3")
PROBE(zeros_bypass_line_16, "cg.shared.global.L2::128B", "16", "", "%3")
PROBE(ignored_bypass_16, "cg.shared.global", "16", " setp.eq.s32 q, %3, 0;", "q")
PROBE(ignored_bypass_line_16, "cg.shared.global.L2::128B", "16", " setp.eq.s32 q, %3, 0;", "q")
