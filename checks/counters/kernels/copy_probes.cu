// Micro-kernels behind the rules of cp.async in engine/costs/banks.py: one warp, PROBES copies, each its own machine
// instruction and alone under way. addresses[p * 32 + lane]: a byte offset in shared memory, negative where the lane is
// switched off; sources: one in global memory.
extern __shared__ __align__(128) unsigned char window[];

#define PROBE(name, how, width) \
    extern "C" __global__ void name(const int *addresses, const int *sources, const unsigned char *data) { \
        const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(window)); \
        _Pragma("unroll") for (int p = 0; p < PROBES; ++p) { \
            const int offset = addresses[p * 32 + threadIdx.x]; \
            const unsigned char *from = data + sources[p * 32 + threadIdx.x]; \
            asm volatile("{ .reg .pred p; setp.ge.s32 p, %0, 0;" \
                         " @p cp.async." how ".shared.global [%1], [%2], " width "; }" \
                         :: "r"(offset), "r"(start + offset), "l"(from) : "memory"); \
            asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory"); \
        } \
    }

PROBE(copy_4, "ca", "4")
PROBE(copy_8, "ca", "8")
PROBE(copy_16, "ca", "16")

// Past L1, whose wavefronts the profiler does not tell apart by instruction: one pattern, PROBES times.
extern "C" __global__ void bypass_16(const int *addresses, const int *sources, const unsigned char *data)
{
    const int offset = addresses[threadIdx.x];
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(window)) + offset;
    const unsigned char *from = data + sources[threadIdx.x];
    _Pragma("unroll") for (int p = 0; p < PROBES; ++p)
        asm volatile("{ .reg .pred p; setp.ge.s32 p, %0, 0; @p cp.async.cg.shared.global [%1], [%2], 16; }"
                     :: "r"(offset), "r"(to), "l"(from + 4096 * p) : "memory");
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
}
