"""Kernels that are hard for a vectorised simulator, and the time per lane instruction of each, in multiples of that of
lesson thread_tile: ``python -m checks.slow_kernels``. The project's limit is twenty. Also products of many warpgroups
and threads that wait at an mbarrier, in seconds.

A single warp exceeds the limit when it accesses memory. Twenty times a lesson's instruction is 1.5 us of processor time
for the 32 lanes of a warp. A NumPy call on 32 numbers takes 0.2 to 0.3 us, and a call of a Python function 0.05, so the
limit allows five or six of both per instruction. Integers and floats need at most about as many. A memory access needs
more, although each part skips patterns that it has already seen: the interpreter computes addresses, recognises their
pattern and moves the values (0.6 us an instruction of this kernel, measured); the checkers look up accesses since the
warp's last barrier, and note which thread read which bytes (0.3); the machine-code engine computes the same addresses
from its own registers, in two halves of 32 bits with a carry, recognises the patterns, and tracks which load is waited
for (1.3). Together these take 2.4 us, some thirty times a lesson's instruction.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from checks.benchmark import simulate_lesson
from checks.usage import help_if_asked
from gemm_lessons import simulate

LIMIT = 20
DOUBLES = """
extern "C" __global__ void k(const double *in, double *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    double a = in[i], b = in[i + 8192], c = in[i + 16384], sum = 0;
    for (int n = 0; n < 100; n++) {
        %s
        a += 0.001;
    }
    out[i] = sum + a + b + c;
}
"""
HISTOGRAM = """
extern "C" __global__ void k(const int *in, int *out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 65536; i += gridDim.x * blockDim.x)
        atomicAdd(&out[in[i] & %d], %s);
}
"""
SHARED_HISTOGRAM = """
extern "C" __global__ void k(const int *in, int *out)
{
    __shared__ int bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 65536; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i] & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
"""
TICKET = """
extern "C" __global__ void k(const int *in, int *out)
{
    const int mine = atomicAdd(out, in[0] > -1);
    out[1 + mine] = mine;
}
"""
FLOAT_SUM = """
extern "C" __global__ void k(const int *in, float *out)
{
    for (int n = 0; n < 4; n++) atomicAdd(out, (float)(in[threadIdx.x] & 3));
}
"""
SWAP_LOOP = """
extern "C" __global__ void k(const int *in, int *out)
{
    int *address = out + (blockIdx.x & 63), old = *(volatile int *)address, assumed;
    do {
        assumed = old;
        old = atomicCAS(address, assumed, __float_as_int(__int_as_float(assumed) + (float)(in[threadIdx.x] & 3)));
    } while (assumed != old);
}
"""
ONE_WARP = """
extern "C" __global__ void k(const int *in, int *out)
{
    int sum = 0;
    for (int n = 0; n < 4000; n++) {
        sum = sum * 3 + (sum >> 5) + n;
        if (sum & 64) sum ^= threadIdx.x; else sum += 7;
    }
    out[threadIdx.x] = sum;
}
"""
ONE_WARP_MEMORY = """
extern "C" __global__ void k(const int *in, int *out)
{
    __shared__ int s[64];
    s[threadIdx.x] = s[threadIdx.x + 32] = 0;
    __syncwarp();
    int sum = 0;
    for (int n = 0; n < 2000; n++) {
        sum += in[(n * 32 + threadIdx.x) & 65535] + s[(threadIdx.x + n) & 63];
        __syncwarp();
        s[threadIdx.x] = sum;
        __syncwarp();
    }
    out[threadIdx.x] = sum;
}
"""
ONE_WARP_FLOATS = """
extern "C" __global__ void k(const int *in, float *out)
{
    float x = in[threadIdx.x], y = 1;
    #pragma unroll 1
    for (int n = 0; n < 4000; n++) { x = fmaf(x, 0.5f, y); y = y * 0.25f + x; x = fminf(x, 1e6f); }
    out[threadIdx.x] = x + y;
}
"""
# 64 products of each warpgroup, all of the same tiles: 0, 1/128, 2/128 ... in bfloat16.
PRODUCTS = """
extern "C" __global__ void k(const int *in, float *out)
{
    __shared__ __align__(1024) unsigned short tiles[2][64 * 64];
    for (int i = threadIdx.x; i < 2 * 64 * 64; i += blockDim.x) tiles[0][i] = (i & 63) << 7;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    float d[32] = {}, sum = 0;
    const unsigned long long a = 1ull << 62 | 64ull << 32 | 1 << 16 | __cvta_generic_to_shared(tiles[0]) >> 4;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int n = 0; n < 64; n++)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {NAMES}, %32, %33, 1, 1, 1, 0, 0;"
                     : SUMS : "l"(a), "l"(a + 512));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 32; i++) sum += d[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
for word, one in (("NAMES", "%{}"), ("SUMS", '"+f"(d[{}])')):
    PRODUCTS = PRODUCTS.replace(word, ", ".join(map(one.format, range(32))))
# One thread computes, all wait for it.
WAITS = """
#define AT "r"((unsigned)__cvta_generic_to_shared(&bar))
extern "C" __global__ void k(const int *in, float *out)
{
    __shared__ unsigned long long bar;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: AT : "memory");
    __syncthreads();
    int sum = 0, over = 0;
    if (threadIdx.x == 0) {
        for (int n = 0; n < 3000; n++) sum = sum * 3 + in[n];
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: AT : "memory");
    }
    while (!over)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                     : "=r"(over) : AT : "memory");
    out[threadIdx.x] = sum;
}
"""
# What a simulator may do one after the other: each is compared with the row before it.
HOPPER = {
    "64 products of 1 warpgroup": (PRODUCTS, 1, 128),
    "64 products of 64 warpgroups": (PRODUCTS, 16, 512),
    "32 threads wait at an mbarrier": (WAITS, 1, 32),
    "1,024 threads wait at an mbarrier": (WAITS, 1, 1024),
}
# name: source, grid, block
KERNELS: dict[str, tuple[str, int, int]] = {
    "add.rz.f64": (DOUBLES % "sum = __dadd_rz(sum, a); sum = __dadd_ru(sum, b);", 32, 256),
    "mul.rm.f64": (DOUBLES % "sum += __dmul_rd(a, b); sum += __dmul_rz(a, c);", 32, 256),
    "fma.rp.f64": (DOUBLES % "sum = __fma_ru(a, b, sum); sum = __fma_rz(a, c, sum);", 32, 256),
    "fma.rn.f64": (DOUBLES % "sum = fma(a, b, sum); sum = fma(a, c, sum);", 32, 256),
    "div.rn.f64": (DOUBLES % "sum += a / b; sum += c / a;", 32, 256),
    "div.rz.f64": (DOUBLES % "sum += __ddiv_rz(a, b); sum += __ddiv_ru(c, a);", 32, 256),
    "sqrt.rm.f64": (DOUBLES % "sum += __dsqrt_rd(a); sum += __drcp_ru(c);", 32, 256),
    "cvt, f64": (DOUBLES % "sum += __double2float_rz(a); sum += __ll2double_ru(__double2ll_rd(b * 1e18));", 32, 256),
    "histogram of 16 bins, global": (HISTOGRAM % (15, "1"), 64, 128),
    "counter, global": (HISTOGRAM % (0, "1"), 64, 128),
    "histogram of 16 bins, shared": (SHARED_HISTOGRAM, 64, 128),
    "tickets": (TICKET, 64, 128),
    "float sum of all threads": (FLOAT_SUM, 64, 128),
    "compare-and-swap loop": (SWAP_LOOP, 64, 64),
    "one warp, integers": (ONE_WARP, 1, 32),
    "one warp, floats": (ONE_WARP_FLOATS, 1, 32),
    "one warp, memory": (ONE_WARP_MEMORY, 1, 32),
}


def lane_instructions_per_second(source: str, grid: int, block: int) -> float:
    """Lane instructions per second of processor time of the best of three launches; counters and checkers are on."""
    rng = np.random.default_rng(5)
    wide = "double" in source
    given = rng.random(1 << 16) + 0.5 if wide else rng.integers(0, 1 << 20, 1 << 16).astype(np.int32)
    out = np.zeros(1 << 16, np.float64 if wide else np.float32 if "float *out" in source else np.int32)
    seconds = []
    for _ in range(3):  # the first also compiles
        out[:] = 0
        start = time.process_time()
        launched = simulate(source, "k", grid, block, [given, out])
        seconds.append(time.process_time() - start)
        assert launched.fault is None, launched.fault
    return sum(launched.counters.opcodes.values()) * 32 / min(seconds)


def seconds_of(source: str, grid: int, block: int) -> float:
    """Processor time of the best of four launches."""
    given, out, seconds = np.ones(1 << 16, np.int32), np.zeros(1 << 16, np.float32), []
    for _ in range(4):
        start = time.process_time()
        launched = simulate(source, "k", grid, block, [given, out], arch="sm_90a")
        seconds.append(time.process_time() - start)
        assert launched.fault is None, launched.fault
    return min(seconds)


def lesson_speed() -> float:
    """The same for lesson thread_tile at 512^3, as ``checks.benchmark`` runs it."""
    simulate_lesson("thread_tile", 512)
    start = time.process_time()
    result = simulate_lesson("thread_tile", 512)
    seconds = time.process_time() - start
    return result["lane_instructions_per_second"] * result["seconds"] / seconds


def main(names: list[str]) -> None:
    """Print the cost of each kernel beside the lesson's."""
    lesson = lesson_speed()
    print(f"thread_tile at 512^3: {lesson:.2e} lane instructions per second of processor time")
    for name, kernel in KERNELS.items():
        if not names or any(wanted in name for wanted in names):
            speed = lane_instructions_per_second(*kernel)
            times = lesson / speed
            mark = "" if times <= LIMIT else f"> {LIMIT}"
            print(f"{name:<32} {speed:.2e}   {times:6.1f} times {mark}", flush=True)
    for name, kernel in HOPPER.items():
        if not names or any(wanted in name for wanted in names):
            print(f"{name:<34} {seconds_of(*kernel):.2f} s of processor time", flush=True)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main(sys.argv[1:])
