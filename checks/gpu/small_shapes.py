"""How far two measurements of a short kernel differ, and how far both are from a harness without Python.

    python -m checks.gpu.small_shapes [--runs 10] [--lessons 09,12,23] [--sizes 128,256,512,1024]

Each run starts a GPU process of its own, as ``gemm-lessons run`` and ``bench`` do. The harness (``harness.cpp``, built
with nvcc) runs once before and once after them. Needs a GPU and nvcc; prints a line for each kernel and size.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.devices.gpu.arena import passed
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.records import Entrant, Step
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.verdict import CompileFailed
from gemm_lessons.running.builder import builder_for
from gemm_lessons.running.measuring import steps_of

HERE = Path(__file__).parent
COURSE = packaged_course()


def entrants_of(gpu: Gpu, names: Sequence[str], shape: Shape) -> list[tuple[Lesson, Entrant]]:
    """Compile the solutions that take this shape, as they are launched on it."""
    found = []
    for lesson in map(COURSE.lesson, names):
        if lesson.shapes.refusal(shape) is not None:
            continue
        at = lesson.at(shape)
        source = at.solution_path.read_text(encoding="utf-8")
        kernels = builder_for(ShadowedGpu(gpu), find_gpu("h200")).build(at, at.solution_path, source)
        assert not isinstance(kernels, CompileFailed), kernels
        found.append((at, Entrant(lesson.name, "reference", steps_of(at, kernels, at.grids(shape)), at.data)))
    return found


def plan(made: Sequence[tuple[Lesson, Entrant]], shape: Shape, folder: Path) -> Iterator[str]:
    """Yield the lines that the harness reads. It has no textures and tensor maps: kernels with those are left out."""
    yield f"size {shape.m} {shape.n} {shape.k}"
    for lesson, entrant in made:
        given = [it for step in entrant.steps for it in passed(lesson.data, shape, step.parameters)]
        if not all("buffer" in it or "raw" in it for it in given):
            continue
        yield f"kernel {entrant.label}"
        for layout in lesson.data.lay_out(shape.names, gap=0).values():
            fill = "random" if layout.role == "in" else "zeros" if layout.fill == "zeros" else "poison"
            yield f"buffer {layout.name} {layout.nbytes} {fill}"
        for number, step in enumerate(entrant.steps):
            yield from _step(lesson, step, shape, folder / f"{entrant.label}.{number}.cubin")


def _step(lesson: Lesson, step: Step, shape: Shape, cubin: Path) -> Iterator[str]:
    cubin.write_bytes(step.compiled.cubin)
    sizes = (*step.grid.grid, *step.grid.block, step.grid.dynamic_shared)
    yield f"step {cubin} {step.compiled.entry} {' '.join(map(str, sizes))}"
    for it in passed(lesson.data, shape, step.parameters):
        yield f"argument {it['buffer']}" if "buffer" in it else f"argument ={it['raw']}"


def harness(program: Path, lines: Sequence[str]) -> dict[str, float]:
    """Return the harness's medians in microseconds, by label."""
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: float(row[1]) for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--lessons", default="09,12,23")
    parser.add_argument("--sizes", default="128,256,512,1024")
    asked = parser.parse_args()
    names = [COURSE.lesson(it).name for it in asked.lessons.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = folder / "harness"
        subprocess.run(
            ["nvcc", "-O2", "-o", program, HERE / "harness.cpp", "-lcuda", "-lcublas"], check=True
        )  # nvcc 12 or 13
        worst = 0.0
        for size in map(int, asked.sizes.split(",")):
            shape = Shape(size, size, size)
            times: dict[str, list[float]] = {}
            shares: dict[str, list[float]] = {}
            plain: dict[str, list[float]] = {}
            for run in range(asked.runs):
                with Gpu() as gpu:
                    if not run:
                        print(f"{gpu.name}, M = N = K = {size}, medians in us of {asked.runs} runs", flush=True)
                    made = entrants_of(gpu, names, shape)
                    if not run:
                        lines = list(plan(made, shape, folder))
                    measured = gpu.measure(made[0][0].data, shape, [it for _, it in made], seed=run, seconds=0.4)
                assert measured.fault is None, measured.fault
                assert measured.cublas is not None
                for it in (*measured.kernels, measured.cublas):
                    times.setdefault(it.label, []).append(it.time_us)
                    shares.setdefault(it.label, []).append(it.of_cublas or 0)
                if run in (0, asked.runs - 1):
                    for label, time_us in harness(program, lines).items():
                        plain.setdefault(label, []).append(time_us)
            for label, found in times.items():
                middle, share = statistics.median(found), shares[label]
                apart = max(found) / min(found) - 1
                worst = max(worst, apart)
                beside = ""
                if label in plain:
                    off = middle / statistics.median(plain[label]) - 1
                    worst = max(worst, abs(off))
                    beside = f"  harness {statistics.median(plain[label]):8.2f} ({off:+6.1%})"
                print(
                    f"  {label:18} {min(found):8.2f} to {max(found):8.2f} ({apart:5.1%})"
                    f"  of cuBLAS {min(share):6.1%} to {max(share):6.1%}{beside}",
                    flush=True,
                )
    print(f"largest difference {worst:.1%}")


if __name__ == "__main__":
    main()
