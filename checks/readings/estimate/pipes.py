"""Measures what tensor cores, fp64, packed bytes, ldmatrix, cp.async and atomics cost: clocks of one instruction.

    python -m checks.readings.estimate.pipes compile DIR             here
    python -m checks.readings.estimate.pipes run DIR NAME.json       on a machine with a GPU and CuPy; some seconds

Arithmetic runs as ``chains`` independent chains of instructions in ``warps`` warps of each scheduler: clocks of the
scheduler per instruction of a warp. One chain of one warp gives the latency, many of many warps the rate. ``beside``
gives the clocks of a step of eight mma and other instructions. Bandwidths come from CUDA events.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.simulator.fragment_cases import MMA, Form
from checks.usage import compile_or_run, help_if_asked

STEPS = 1024
HEAD = """
#include <cuda_fp16.h>
typedef unsigned u32;
extern "C" __global__ void __launch_bounds__(BOUND) k(long long *clocks, u32 *sink, u32 *data, int zero)
{
    extern __shared__ __align__(1024) u32 tile[];
    for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = zero;
    const u32 lane = threadIdx.x % 32, at = (u32)__cvta_generic_to_shared(tile);
    u32 sum = lane;
"""
BEGIN = """
    __syncthreads();
    const long long begin = clock64();
#pragma unroll UNROLL
    for (int step = 0; step < STEPS; step++) {
"""
END = """
    }
    __syncthreads();
    const long long end = clock64();
    if (threadIdx.x == 0) clocks[blockIdx.x] = end - begin;
"""
TAIL = "    if (sum == 0x7fffffff) sink[threadIdx.x] = sum;\n}\n"
WORDS = {"f64": ("double", "d")}


@dataclass(frozen=True)
class Arithmetic:
    """``instruction`` on ``chains`` targets of ``results`` registers each, the other operands the same for all."""

    name: str
    instruction: str  # of PTX, without operands
    results: int
    sources: tuple[int, ...]
    kind: str  # C's type of a register
    letter: str
    source_kind: str
    source_letter: str

    @classmethod
    def of_form(cls, name: str) -> Arithmetic:
        form = Form(name)
        kinds = ("double", "d") if form.types["d"] == "f64" else ("u32", "r")
        return cls(
            name, name, form.words("d"), (form.words("a"), form.words("b")), *kinds, *kinds
        )  # fmt: skip

    def declared(self, chains: int) -> str:
        """CUDA C++ that declares and loads the registers."""
        lines = [f"    {self.kind} d{chain}[{self.results}];" for chain in range(chains)]
        lines += [f"    {self.source_kind} s{number}[{count}];" for number, count in enumerate(self.sources)]
        lines += [
            f"    for (int i = 0; i < {self.results}; i++) d{chain}[i] = data[i + lane + {chain}];"
            for chain in range(chains)
        ]
        lines += [
            f"    for (int i = 0; i < {count}; i++) s{number}[i] = data[64 + i + lane + {number}];"
            for number, count in enumerate(self.sources)
        ]
        return "\n".join(lines) + "\n"

    def once(self, chain: int) -> str:
        """One instruction."""
        places, at = [], 0
        for count in (self.results, *self.sources):
            words = ", ".join(f"%{at + i}" for i in range(count))
            places.append(f"{{{words}}}" if "mma" in self.instruction else words)
            at += count
        operands = ", ".join([*places, places[0]])
        results = ", ".join(f'"+{self.letter}"(d{chain}[{i}])' for i in range(self.results))
        sources = ", ".join(
            f'"{self.source_letter}"(s{number}[{i}])' for number, count in enumerate(self.sources) for i in range(count)
        )
        return f'asm volatile("{self.instruction} {operands};" : {results} : {sources});'

    def used(self, chains: int) -> str:
        """CUDA C++ that uses every result, so that the compiler removes nothing."""
        return "".join(
            f"    for (int i = 0; i < {self.results}; i++) sum += (u32)d{chain}[i];\n" for chain in range(chains)
        )

    def kernel(self, chains: int, more: str = "", each: int = 8) -> str:
        """A step is ``each`` instructions, and ``more``."""
        body = "\n".join(f"        {self.once(number % chains)}" for number in range(each))
        return HEAD + self.declared(chains) + BEGIN + more + body + END + self.used(chains) + TAIL


PLAIN = (
    Arithmetic("dfma", "fma.rn.f64", 1, (1, 1), "double", "d", "double", "d"),
    Arithmetic("ffma", "fma.rn.f32", 1, (1, 1), "float", "f", "float", "f"),
    Arithmetic("dp4a", "dp4a.s32.s32", 1, (1, 1), "u32", "r", "u32", "r"),
    Arithmetic("dp2a", "dp2a.lo.s32.s32", 1, (1, 1), "u32", "r", "u32", "r"),
    Arithmetic("hfma2", "fma.rn.f16x2", 1, (1, 1), "u32", "r", "u32", "r"),
)
HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
CONVERTED = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"  # on sm_90: conversions, two HMMA in float16, FADD
DMMA = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"


def matrix_load(count: int, how: str, offset: int = 0) -> str:
    """``ldmatrix`` of rows side by side."""
    words = ", ".join(f"%{i}" for i in range(count))
    results = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    name = f"ldmatrix.sync.aligned.m8n8.x{count}{how}.shared.b16"
    return f'asm volatile("{name} {{{words}}}, [%{count} + {offset}];" : {results} : "r"(row)); sum += r[0];\n'


def several(count: int, how: str) -> str:
    """``count`` loads by ``ldmatrix`` of different rows, which ptxas does not merge."""
    return "".join(matrix_load(4, how, 512 * i) for i in range(count))


# Factors that stay are converted, and multiplied, once before the loop.
NEW_FACTORS = "        for (u32 &word : s0) word ^= step;\n        for (u32 &word : s1) word ^= step;\n"
LDS = (
    'asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])'
)
LDS += ' : "r"(at + lane * 16)); sum += r[0];\n'
FFMA = 'asm volatile("fma.rn.f32 %0, %1, %1, %0;" : "+f"(x) : "f"(y));\n'
LOGIC = 'asm volatile("lop3.b32 %0, %0, %1, %1, 0x96;" : "+r"(n) : "r"(lane));\n'
ROW = "u32 r[4]; const u32 row = at + lane * 16; "
MORE = {
    "nothing": "",
    **{f"{count} ldmatrix.x4": ROW + several(count, "") for count in (1, 2, 4)},
    "4 ldmatrix.x4.trans": ROW + several(4, ".trans"),
    "4 lds.128": ROW + LDS * 4,
    "8 ffma": FFMA * 8,
    "8 lop3": LOGIC * 8,
    "16 lop3": LOGIC * 16,
}


def beside(of: Arithmetic, more: str) -> str:
    """Eight mma and ``more``."""
    text = of.kernel(8, more)
    return text.replace(BEGIN, "    float x = zero, y = lane;\n    u32 n = lane;\n" + BEGIN).replace(
        TAIL, "    sum += (u32)x + n;\n" + TAIL
    )


def loads(count: int, how: str) -> str:
    """Eight ``ldmatrix`` per step, or (``how`` "chain") one whose address depends on the result of the last one."""
    if how == "chain":
        body = "        " + matrix_load(count, "") + "row += r[0];\n"
        return HEAD + "    u32 r[4], row = at + lane % 32 * 16;\n" + BEGIN + body + END + TAIL
    body = "".join("        " + matrix_load(count, how, 512 * i) for i in range(8))
    return HEAD + "    u32 r[4], row = at + lane % 32 * 16;\n" + BEGIN + body + END + TAIL


CHAINED_LDS = (
    HEAD
    + "    u32 r, row = at + lane * 4;\n"
    + BEGIN
    + 'asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(r) : "r"(row)); row += r; sum += r;\n'
    + END
    + TAIL
)


def copies(width: int, how: str, alone: bool) -> str:
    """Eight ``cp.async`` of adjacent lines per step, or one (``alone``), and the wait for them."""
    name = f"cp.async.{how}.shared.global"
    each = 1 if alone else 8
    body = "".join(
        f'        asm volatile("{name} [%0], [%1], {width};" :: "r"(to + {i} * 32 * {width}),'
        f' "l"(from + {i} * 32 * {width}) : "memory");\n'
        for i in range(each)
    )
    body += '        asm volatile("cp.async.commit_group;\\ncp.async.wait_group 0;" ::: "memory");\n'
    setup = f"    const u32 to = at + (threadIdx.x / 32 % 4 * 8 * 32 + lane) * {width};\n"
    setup += f"    const char *from = (const char *)data + (threadIdx.x / 32 * 8 * 32 + lane) * {width};\n"
    return HEAD + setup + BEGIN + body + END + TAIL


REDUCTIONS = """
extern "C" __global__ void k(float *data, int words, int rounds)
{
    for (int round = 0; round < rounds; round++)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
            BODY
}
"""
BODIES = {"atomicAdd": "atomicAdd(&data[i], 1.0f);", "store": "((volatile float *)data)[i] = round;"}


@dataclass(frozen=True)
class Probe:
    """A kernel, launched on every multiprocessor or on one. Its clocks per step are divided by ``each``."""

    name: str
    source: str
    threads: int
    each: float
    everywhere: bool = True
    unroll: int = 1


def arithmetic() -> list[Arithmetic]:
    """Every form of mma that is one machine instruction, and the others."""
    return [*(Arithmetic.of_form(name) for name in MMA if ".e4m3" not in name and ".e5m2" not in name), *PLAIN]


def probes() -> Iterator[Probe]:
    """Everything whose clocks are read."""
    doubles = [Arithmetic(name, f"{name}.rn.f64", 1, (1,), "double", "d", "double", "d") for name in ("add", "mul")]
    for of in (*arithmetic(), *doubles):
        many = 4 if of.results * (2 if of.kind == "double" else 1) >= 8 else 8
        for chains, warps in ((1, 1), (2, 1), (many, 1), (many, 2), (many, 4)):
            yield Probe(f"{of.name} {chains} chains {warps} warps", of.kernel(chains), 128 * warps, 8 * warps, unroll=4)
    for form in (HMMA, DMMA):
        of = Arithmetic.of_form(form)
        for more, text in MORE.items():
            for warps in (1, 2):
                yield Probe(f"{form} x 8 beside {more} {warps} warps", beside(of, text), 128 * warps, warps)
    for form in (HMMA, CONVERTED):
        of = Arithmetic.of_form(form)
        yield Probe(f"{form} of new factors 4 warps", of.kernel(1, NEW_FACTORS, each=1), 512, 4, unroll=4)
    for more, text in MORE.items():
        if "ld" in more:
            yield Probe(f"dfma x 8 beside {more} 2 warps", beside(PLAIN[0], text), 256, 2)
    yield Probe("lds and add, latency", CHAINED_LDS, 32, 1, everywhere=False, unroll=4)
    for count in (1, 2, 4):
        yield Probe(f"ldmatrix.x{count} and add, latency", loads(count, "chain"), 32, 1, everywhere=False, unroll=4)
        for how in ("", ".trans"):
            yield Probe(f"ldmatrix.x{count}{how}", loads(count, how), 1024, 8 * 32)
    for width, how in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
        name = f"cp.async.{how} {width}"
        yield Probe(f"{name}, one and its wait", copies(width, how, True), 32, 1, everywhere=False)
        for warps in (4, 8, 16, 32):
            yield Probe(f"{name}, {warps} warps", copies(width, how, False), 32 * warps, 8 * warps)


def compile_probes(folder: Path) -> None:
    """A cubin for each."""
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    folder.mkdir(parents=True, exist_ok=True)
    for number, probe in enumerate(probes()):
        defines = {"STEPS": STEPS, "UNROLL": probe.unroll, "BOUND": max(probe.threads, 128)}
        compiled = compile_source(probe.source, path="k.cu", entry="k", defines=defines, include_dirs=(), arch="sm_90")
        assert isinstance(compiled, Compiled), compiled.log
        assert not compiled.resources.spill_bytes, probe.name
        (folder / f"{number}.cubin").write_bytes(compiled.cubin)
    for name, body in BODIES.items():
        source = REDUCTIONS.replace("BODY", body)
        compiled = compile_source(source, path="k.cu", entry="k", defines={}, include_dirs=(), arch="sm_90")
        assert isinstance(compiled, Compiled), compiled.log
        (folder / f"{name}.cubin").write_bytes(compiled.cubin)


def run(folder: Path, target: Path) -> None:
    """On the current GPU."""
    import cupy
    import numpy as np

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    sms = properties["multiProcessorCount"]
    places, sink, data = cupy.zeros(4096, cupy.int64), cupy.zeros(1024, cupy.uint32), cupy.zeros(1 << 24, cupy.uint32)
    clocks = {}
    for number, probe in enumerate(probes()):
        function = cupy.RawModule(path=str(folder / f"{number}.cubin")).get_function("k")
        blocks, taken = sms if probe.everywhere else 1, []
        for _ in range(4):
            function((blocks,), (probe.threads,), (places, sink, data, np.int32(0)), shared_mem=32768)
            taken.append(float(cupy.median(places[:blocks])))
        clocks[probe.name] = round(statistics.median(taken) / STEPS / probe.each, 3)
    rates = {}
    for name in BODIES:
        function = cupy.RawModule(path=str(folder / f"{name}.cubin")).get_function("k")
        for megabytes, rounds in ((1, 100), (8, 40), (32, 20)):
            times = []
            for _ in range(4):
                first, second = cupy.cuda.Event(), cupy.cuda.Event()
                first.record()
                function((sms * 8,), (256,), (data, np.int32(megabytes << 18), np.int32(rounds)))
                second.record()
                second.synchronize()
                times.append(cupy.cuda.get_elapsed_time(first, second))
            rates[f"{name} {megabytes} MiB"] = round(megabytes * 2**20 * rounds / min(times) / 1e6, 1)
    found = {
        "what": "python -m checks.readings.estimate.pipes: clocks, see there; GB/s",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": properties["name"].decode(),
        "sms": sms,
        "clocks": clocks,
        "gb_per_s": rates,
    }
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    compile_or_run(compile_probes, run)
