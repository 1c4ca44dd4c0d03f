"""Measure beat_cublas, variants of it and double_buffer beside cuBLAS on squares, and loops of multiply-adds on
registers: where ``lessons/measured/h200_squares.json`` comes from.

    python -m checks.course.squares compile DIR                 # here: machine code of every kernel and loop
    python -m checks.course.squares run DIR lessons/measured/h200_squares.json     # on a machine with the GPU and cupy

Everything else is as in ``measure``. ``three`` and ``bank`` are read from the machine code of the fullest innermost
loop: percent of its multiply-adds that read three registers, and of those that read two of one bank; what the one
before kept (``.reuse``) is not read again. ``other``: instructions that are none, for 100 multiply-adds.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checks.course.kernel import GPU_ARCH, Kernel
from checks.course.measure import CHECKS, COLD, WARM, Bench, compile_kernels, every_size, machine, spread, write
from checks.course.split import Hidden
from checks.course.variants import Variant
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.gemm.shapes import Shape

SOURCE = Path(__file__).with_name("registers.cu")
ROUNDS = {1024: 40, 1536: 30, 2048: 20, 3072: 15, 4096: 15, 6144: 11, 8192: 15}
BLOCKS, THREADS, TURNS, REPEATS = 2, 128, 4000, 7

ROW_BY_ROW = (
    """\
                for (int j = 0; j < TN; j++)
                    for (int n = 0; n < TM; n++) {
                        const int i = j % 2 ? TM - 1 - n : n;
                        acc[i][j] += a_frag[i] * b_frag[j];
                    }
""",
    """\
                for (int i = 0; i < TM; i++)
                    for (int j = 0; j < TN; j++)
                        acc[i][j] += a_frag[i] * b_frag[j];
""",
)
COLUMNS = ("const int i = j % 2 ? TM - 1 - n : n;", "const int i = n;")
"""Down each column, never up."""
UNSETTLED = ("            acc[i][j] += 0.0f;\n", "            ;\n")

PRODUCER = Path(__file__).with_name("producer.cuh")
INCLUDED = '#include "turned.cuh"\n'


@dataclass(frozen=True)
class Produced(Variant):
    """By TMA, with a warp more that does nothing but ask for tiles (producer.cuh). ``down``: as solution.cu, the first
    column of products downwards."""

    down: bool = False

    def kernel(self) -> Kernel:
        added = f"constexpr bool DOWN = {str(self.down).lower()};\n" + PRODUCER.read_text()
        edits = ((INCLUDED, INCLUDED + added),)
        kernel = Variant(self.name, self.tile, edits, type="tma", entry="gemm_by_producer").kernel()
        turn, multiply, combine = kernel.lesson.launches
        threads = Expression(f"{multiply.block[0].text} + 32")
        multiply = replace(multiply, entry=kernel.entry, block=(threads,))
        return replace(kernel, lesson=replace(kernel.lesson, launches=(turn, multiply, combine)))


SQUARES_OF_8 = {"BN": 128, "WM": 64, "WN": 32, "TN": 8, "UNROLL": 16, "BLOCKS_PER_SM": 3}
VARIANTS = (
    Variant("double_buffer", {}),
    Variant("beat_cublas", {}),
    Variant("beat_cublas tma", {}, type="tma", entry="gemm_by_tma"),
    Variant("beat_cublas row by row", {}, (ROW_BY_ROW,)),
    Variant("beat_cublas columns", {}, (COLUMNS,)),
    Variant("beat_cublas unsettled", {}, (UNSETTLED,)),
    Variant("beat_cublas unroll 16", {"UNROLL": 16}),
    Variant("beat_cublas slices", {"FILL": 1}),
    Variant("beat_cublas 128x128", {"BM": 128, "BN": 128}),
    Variant("beat_cublas 8x8", SQUARES_OF_8),
    Variant("beat_cublas usage 10", {"USAGE": 10}),
    Variant("beat_cublas level 1", {"LEVEL": 1}),
    Variant("beat_cublas tma usage 10", {"USAGE": 10}, type="tma", entry="gemm_by_tma"),
    Variant("beat_cublas tma level 1", {"LEVEL": 1}, type="tma", entry="gemm_by_tma"),
    Produced("beat_cublas tma producer", {"STAGES": 3}),
    Produced("beat_cublas tma producer down", {"STAGES": 3}, down=True),
    Produced("beat_cublas tma producer 256x128", {"BM": 256, "STAGES": 3, "BLOCKS_PER_SM": 1}),
    Produced("beat_cublas tma producer 2 stages", {"STAGES": 2}),
)
LOOPS = {  # name: TM, TN, FEED, ORDER
    f"loop {tm}x{tn} {words}": (tm, tn, feed, order)
    for tm, tn in ((8, 8), (8, 16))
    for words, feed, order in (
        ("registers row by row", 0, 0),
        ("registers", 0, 2),
        ("b from shared", 1, 2),
        ("both from shared", 2, 2),
        ("both row by row", 2, 0),
        ("a from constants", 3, 2),
        ("a by shuffles", 4, 2),
    )
}


def compile_all(folder: Path) -> None:
    from gemm_lessons.authoring.inner_loop import reads
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source
    from gemm_lessons.engine.compiler.sass import disassemble, parse

    shapes = [Shape(n, n, n) for n in (4096, *ROUNDS)] + [Shape(*sizes) for sizes in CHECKS]
    compile_kernels(folder, [variant.kernel() for variant in VARIANTS], shapes)
    listed = json.loads((folder / "kernels.json").read_text())
    for kernel in listed["kernels"]:
        kernel["resources"] |= reads(parse(disassemble((folder / kernel["file"]).read_bytes()), kernel["entry"]))
    listed["loops"] = {}
    for number, (name, (rows, cols, feed, order)) in enumerate(LOOPS.items()):
        sizes = {"TM": rows, "TN": cols, "FEED": feed, "ORDER": order, "BLOCKS": BLOCKS, "THREADS": THREADS}
        made = compile_source(
            SOURCE.read_text(), path=str(SOURCE), entry="loop", defines=sizes, include_dirs=(), arch=GPU_ARCH
        )
        assert isinstance(made, Compiled), made.log
        (folder / f"loop{number}.cubin").write_bytes(made.cubin)
        listed["loops"][name] = {"file": f"loop{number}.cubin", **reads(made.sass)}
    (folder / "kernels.json").write_text(json.dumps(listed))


def loops(bench: Bench, folder: Path) -> list[dict[str, Any]]:
    """A line for each loop; it has no size."""
    cupy, np = bench.cupy, bench.np
    numbers, out = bench.random(1 << 16), cupy.empty(BLOCKS * 132 * THREADS, cupy.float32)
    found = []
    for name, about in json.loads((folder / "kernels.json").read_text())["loops"].items():
        rows, cols, *_ = LOOPS[name]
        function = cupy.RawModule(path=str(folder / about.pop("file"))).get_function("loop")
        times = []
        for _ in range(REPEATS):
            start, stop = bench.events
            start.record()
            function((BLOCKS * 132,), (THREADS,), (numbers, out, np.int32(TURNS)))
            stop.record()
            stop.synchronize()
            times.append(float(cupy.cuda.get_elapsed_time(start, stop)) * 1e3)
        work = 2 * rows * cols * 8 * TURNS * BLOCKS * 132 * THREADS
        tflops = round(work / statistics.median(times) / 1e6, 3)
        found.append(
            {"kernel": name, "size": 0, "repeats": REPEATS, COLD: {**spread(times), "tflops": tflops}, **about}
        )
        print(name, tflops, about, flush=True)
    return found


def run(folder: Path, target: Path) -> None:
    bench = Hidden(folder)
    rows = every_size(bench, ROUNDS, (WARM, COLD), lambda name, n: ROUNDS[n])
    rows += loops(bench, folder)
    about = {
        "command": "python -m checks.course.squares compile DIR; python -m checks.course.squares run DIR FILE",
        **machine(bench),
        "what": "C = A B, fp32, square, standard normal inputs: beat_cublas, variants of it, double_buffer and cuBLAS,"
        " one launch of each a round, in a new order each time; and loops of multiply-adds (registers.cu), which have"
        " no size.",
        "how": "CUDA events around one launch, median over the repeats. warm, cold: as in h200.json. three, bank,"
        " other: percent of the inner loop's multiply-adds that read three registers, or two of one bank, and"
        " instructions that are no multiply-adds for 100 that are; read from the machine code.",
    }
    write(target, about, rows)


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_all(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
