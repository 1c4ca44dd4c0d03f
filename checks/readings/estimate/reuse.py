"""How many registers do banks deliver, and when is an operand of the reuse cache lost? Clocks of a multiply-add.

    python -m checks.readings.estimate.reuse compile DIR          here
    python -m checks.readings.estimate.reuse run DIR NAME.json    on a machine with a GPU and CuPy; some seconds

ptxas decides what is kept, so the multiply-adds of a compiled loop are overwritten: registers, flags, stall and yield.
"""

from __future__ import annotations

import json
import statistics
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from checks.usage import compile_or_run, help_if_asked

COUNT = 256  # multiply-adds of a turn
TURNS = 60
SUMS, FACTORS = 32, 32
SOURCE = """
extern "C" __global__ void __launch_bounds__(512) k(int turns, float *out, int *clocks)
{
    extern __shared__ __align__(128) float tile[];
    for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = 0;
    __syncthreads();
    float s[SUMS], f[FACTORS];
    for (int i = 0; i < SUMS; i++) s[i] = tile[i + threadIdx.x];
    for (int i = 0; i < FACTORS; i++) f[i] = tile[i + 99 + threadIdx.x];
    int begun, over;
    __syncthreads();
    asm volatile("mov.u32 %0, %%clock;" : "=r"(begun) :: "memory");
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            asm volatile("fma.rn.f32 %0, %1, %2, %0;"
                         : "+f"(s[i % SUMS]) : "f"(f[i % FACTORS]), "f"(f[(i * 5 + 1) % FACTORS]));
    }
    asm volatile("mov.u32 %0, %%clock;" : "=r"(over) :: "memory");
    float sum = 0;
    for (int i = 0; i < SUMS; i++) sum += s[i];
    for (int i = 0; i < FACTORS; i++) sum += f[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x % 32 == 0) { clocks[2 * (threadIdx.x / 32)] = begun; clocks[2 * (threadIdx.x / 32) + 1] = over; }
}
"""
CONTROL, NOTHING = 41, 0b111111  # the scheduling fields' first bit; sets and reads no scoreboard
WARPS = (1, 2, 3, 4)
Multiplied = tuple[tuple[int, int], tuple[int, int], int, int]  # a and b (parity, number), the sum's parity, flags
Pattern = Callable[[int], Multiplied]
A, B = 1, 2


def patterns() -> dict[str, Pattern]:
    """name -> multiply-add i: a and b (parity, number), the parity of its sum, the flags."""

    def kept(length: int, b: int, c: int, *, flip: int = 0) -> Pattern:
        # a stays for ``length``; b new each time
        def of(i: int) -> Multiplied:
            last = i % length == length - 1
            return (0, i // length % 4), (b ^ (i & flip), 4 + i % 8), c ^ (i & flip), 0 if last else A

        return of

    def new(a: int, b: int, c: int, *, flip: int = 0, flags: int = 0) -> Pattern:
        return lambda i: ((a ^ (i & flip), i % 4), (b ^ (i & flip), 4 + i % 8), c ^ (i & flip), flags)

    def snake(i: int) -> Multiplied:
        # eight by eight, forth and back; a is kept along a row, b from row to row
        row, j = i // 8 % 8, i % 8
        j = j if row % 2 == 0 else 7 - j
        return (0, row), (1, j), (row + j) % 2, (A if i % 8 < 7 else B)

    def columns(i: int) -> Multiplied:  # eight by eight, b is new each time and odd, sums' parity by the column
        row, j = i // 8 % 8, i % 8
        return (0, row), (j % 2, 8 + j), (row + j + 1) % 2, (A if i % 8 < 7 else 0)

    def away(i: int) -> Multiplied:  # a is kept over one instruction with another a, which is not flagged
        return (0, 0 if i % 2 == 0 else 1 + i // 2 % 3), (1, 4 + i % 8), i // 2 % 2, (A if i % 2 == 0 else 0)

    def same(i: int) -> Multiplied:  # reads the same register without the flag
        return (0, i // 8 % 4), (1, 4 + i % 8), i % 2, 0

    def both(i: int) -> Multiplied:  # a and b kept: two registers less
        return (0, i // 8 % 4), (0, 4 + i // 8 % 4), 0, (A | B if i % 8 < 7 else 0)

    def swapped(i: int) -> Multiplied:  # the register is kept at a, read at b
        return ((0, 0), (0, 4 + i % 8), 0, A) if i % 2 == 0 else ((0, 8 + i % 4), (0, 0), 0, 0)

    return {
        "two": lambda i: ((0, i % 4), (0, i % 4), 1, 0),
        "two, one bank": lambda i: ((0, i % 4), (0, i % 4), 0, 0),
        "two, one bank, in turns": lambda i: ((i & 1, i % 4), (i & 1, i % 4), i & 1, 0),
        "two, banks in pairs": lambda i: ((i >> 1 & 1, i % 4), (i >> 1 & 1, i % 4), i >> 1 & 1, 0),
        "three": new(0, 1, 0),
        "three, in turns": new(0, 1, 0, flip=1),
        "three, one bank": new(0, 0, 0),
        "three, one bank, in turns": new(0, 0, 0, flip=1),
        "three, flagged": new(0, 1, 0, flags=A),
        "kept": kept(8, 1, 0),
        "kept, in turns": kept(8, 1, 0, flip=1),
        "kept 2": kept(2, 1, 0),
        "kept 2, in turns": kept(2, 1, 0, flip=1),
        "kept 4": kept(4, 1, 0),
        "kept 64": kept(64, 1, 0),
        "kept, one bank": kept(8, 0, 0),
        "kept, other bank": kept(8, 1, 1),
        "kept, one bank, in turns": kept(8, 0, 0, flip=1),
        "kept over another": away,
        "same without flag": same,
        "both kept": both,
        "kept elsewhere": swapped,
        "snake": snake,
        "columns": columns,
    }


PATTERNS = patterns()
HOW = {"": (1, 1), "yield": (1, 0), "stall 2": (2, 1), "stall 2, yield": (2, 0)}  # stall, and the bit of "go on"
CASES = [(pattern, how) for pattern in PATTERNS for how in HOW]


def overwritten(cubin: bytes, pattern: str, how: str) -> bytes:
    """The cubin with other multiply-adds in its loop."""
    from gemm_lessons.engine.compiler import elf
    from gemm_lessons.engine.compiler.sass import disassemble, parse

    places = [n for n, it in enumerate(parse(disassemble(cubin), "k")) if it.opcode == "FFMA"]
    assert len(places) == COUNT, len(places)
    text = next(part.data for part in elf.sections(cubin) if part.name == ".text.k")
    start, data = cubin.index(text), bytearray(cubin)
    words = [struct.unpack_from("<QQ", text, 16 * n) for n in places]
    sums = {low >> 16 & 255 for low, _ in words}
    factors = {low >> shift & 255 for low, _ in words for shift in (24, 32)}
    assert not sums & factors
    by = [[sorted(r for r in of if r % 2 == parity) for parity in (0, 1)] for of in (factors, sums)]
    (stall, bit), used = HOW[how], [0, 0]
    for i, (n, (low, high)) in enumerate(zip(places, words, strict=True)):
        (pa, a), (pb, b), pc, flags = PATTERNS[pattern](i)
        ra, rb = by[0][pa][a % len(by[0][pa])], by[0][pb][b % len(by[0][pb])]
        rc = by[1][pc][used[pc] % len(by[1][pc])]
        used[pc] += 1
        low = low & ~(0xFFFFFF << 16) & ~(0xFF << 32) | rc << 16 | ra << 24 | rb << 32
        control = stall | bit << 4 | NOTHING << 5 | flags << 17
        high = high & (1 << CONTROL) - 1 & ~0xFF | rc | control << CONTROL
        struct.pack_into("<QQ", data, start + 16 * n, low, high)
    return bytes(data)


def compiled_loop() -> bytes:
    from checks.course.kernel import compiled

    made = compiled(SOURCE, Path("k.cu"), "k", {"SUMS": SUMS, "FACTORS": FACTORS, "COUNT": COUNT})
    assert not made.resources.spill_bytes
    return made.cubin


def compile_cases(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    cubin = compiled_loop()
    for number, (pattern, how) in enumerate(CASES):
        (folder / f"{number}.cubin").write_bytes(overwritten(cubin, pattern, how))


def run(folder: Path, target: Path) -> None:
    import cupy
    import numpy as np

    out, clocks, found = cupy.zeros(512, cupy.float32), cupy.zeros(64, cupy.int32), {}
    for number, (pattern, how) in enumerate(CASES):
        function, row = cupy.RawModule(path=str(folder / f"{number}.cubin")).get_function("k"), []
        for warps in WARPS:
            took = []
            for _ in range(3):
                function((1,), (128 * warps,), (np.int32(TURNS), out, clocks), shared_mem=33792)
                got = clocks.get()[: 8 * warps].astype(np.int64)
                took.append(int(got[1::2].max() - got[::2].min()))
            row.append(round(statistics.median(took) / TURNS / COUNT / warps, 3))
        found[", ".join(filter(None, (pattern, how)))] = row
    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    write(target, gpu, found)


def write(target: Path, gpu: str, found: Mapping[str, Sequence[float]]) -> None:
    """One line for each case."""
    about = {"what": (__doc__ or "").partition("\n")[0], "gpu": gpu, "warps_of_a_scheduler": WARPS}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    target.write_text(f'{json.dumps(about, indent=1)[:-2]},\n "clocks": {{\n{lines}\n }}\n}}\n')


if __name__ == "__main__":
    help_if_asked(__doc__)
    compile_or_run(compile_cases, run)
