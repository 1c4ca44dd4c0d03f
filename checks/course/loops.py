"""Loops of multiply-adds and nothing else, as ceilings for what a kernel reaches: ``loops.cu`` and ``registers.cu``.

The size of a row is 0. Three fields are read from the machine code, from the innermost loop with most multiply-adds:

    three    percent of its multiply-adds that read three registers
    bank     percent that read exactly two, both from one bank
    other    other instructions per 100 multiply-adds

An operand that the instruction before kept in the reuse cache (``.reuse``) is not read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checks.course.bench import Bench, spread
from checks.course.kernel import compiled
from checks.course.tables import COLD, Table

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

MULTIPROCESSORS = 132
REPEATS = 7
NUMBERS = 1 << 16  # random inputs that a loop reads
DEPTH = 8  # of registers.cu: steps of K per iteration


@dataclass(frozen=True)
class Code:
    """A source of loops. ``sizes``: the macros that the numbers of a tile define, in order."""

    source: Path
    sizes: tuple[str, ...]
    blocks_per_sm: int
    threads: int

    def defines(self, tile: Sequence[int]) -> dict[str, int]:
        launch = {"BLOCKS": self.blocks_per_sm, "THREADS": self.threads}
        return {**dict(zip(self.sizes, tile, strict=True)), **launch}

    def turns(self, tile: Sequence[int]) -> int:
        """Iterations of the loop. With UNROLL, as many as 2**20 multiply-adds per thread need; else 4000, some 2 ms."""
        rows, cols, unroll, *_ = tile
        return (1 << 20) // (rows * cols * unroll) if "UNROLL" in self.sizes else 4000

    def multiply_adds(self, tile: Sequence[int]) -> int:
        """Multiply-adds of one thread in all iterations."""
        rows, cols, unroll, *_ = tile
        return rows * cols * self.turns(tile) * (unroll if "UNROLL" in self.sizes else DEPTH)


FED = Code(Path(__file__).with_name("registers.cu"), ("TM", "TN", "FEED", "ORDER"), 2, 128)
TYPED = Code(Path(__file__).with_name("loops.cu"), ("TM", "TN", "UNROLL"), 1, 256)  # two warps for each scheduler
CODES = {"loop": FED, "dfma": TYPED, "fed": TYPED, "idp": TYPED, "hfma2": TYPED}
ELEMENTS = {"loop": "float32", "dfma": "float64", "fed": "float64", "idp": "int8", "hfma2": "float16"}
OPERATIONS = {"float32": 2, "float64": 2, "int8": 8, "float16": 4}  # of one multiply-add, for one lane


def compile_loop(entry: str, tile: Sequence[int]) -> Compiled:
    code = CODES[entry]
    return compiled(code.source.read_text(), code.source, entry, code.defines(tile))


def reads_of(made: Compiled, entry: str) -> dict[str, float]:
    """Register reads of the inner loop: ``three``, ``bank`` and ``other`` (see above)."""
    from gemm_lessons.engine.compiler.sass import disassemble, parse
    from gemm_lessons.engine.sass.inner_loop import reads

    return reads(parse(disassemble(made.cubin), entry))


def compile_loops(table: Table, folder: Path) -> list[dict[str, Any]]:
    """Write a cubin for each loop and tile; return the list that ``measure_loops`` reads from ``kernels.json``."""
    listed: list[dict[str, Any]] = []
    for name, about in table.loops.items():
        for tile in about["tiles"]:
            made = compile_loop(about["entry"], tile)
            file = f"loop{len(listed)}.cubin"
            (folder / file).write_bytes(made.cubin)
            resources = reads_of(made, about["entry"]) if "three" in table.fields else {}
            listed.append({"name": name, "entry": about["entry"], "tile": tile, "file": file, "resources": resources})
    return listed


def measure_loops(bench: Bench) -> list[dict[str, Any]]:
    """Measure every tile of each loop; return the row of the fastest one."""
    best: dict[str, dict[str, Any]] = {}
    for loop in bench.compiled["loops"]:
        row = measure_loop(bench, loop)
        print(row, flush=True)
        fastest = best.setdefault(loop["name"], row)
        if row[COLD]["tflops"] > fastest[COLD]["tflops"]:
            best[loop["name"]] = row
    return [*best.values()]


def measure_loop(bench: Bench, loop: Mapping[str, Any]) -> dict[str, Any]:
    cupy, np = bench.cupy, bench.np
    entry, tile = loop["entry"], loop["tile"]
    code, element = CODES[entry], ELEMENTS[entry]
    blocks = MULTIPROCESSORS * code.blocks_per_sm
    numbers = bench.drawn(element, NUMBERS)
    out, clocks = cupy.empty(blocks * code.threads, cupy.float64), cupy.zeros(blocks, cupy.int64)
    buffers = (numbers, out) if code is FED else (out, numbers, clocks)
    function = cupy.RawModule(path=str(bench.folder / loop["file"])).get_function(entry)
    call = partial(function, (blocks,), (code.threads,), (*buffers, np.int32(code.turns(tile))))
    call()
    here = spread([bench.timed(call, COLD, out) for _ in range(REPEATS)])
    work = code.multiply_adds(tile) * code.threads
    here["tflops"] = round(OPERATIONS[element] * work * blocks / here["median_us"] / 1e6, 3)
    row = {"kernel": loop["name"], "size": 0, "repeats": REPEATS}
    if code is TYPED:
        row |= {"tile": f"{tile[0]}x{tile[1]}", "lanes_a_clock": round(work / float(clocks.mean()), 2)}
    return {**row, COLD: here, **loop["resources"]}
