"""How far measurements of a short kernel differ from run to run, and from a harness without Python.

    python -m checks.gpu.small_shapes [--runs 10] [--lessons 12,18] [--sizes 128,256,512,1024]

Each measurement runs in its own process: ``gemm-lessons bench`` of all lessons at these sizes, and ``gemm-lessons run``
of each lesson at its own shape. The harness (``harness.cpp``, built with nvcc) times the same machine code, once before
and once after all of these. Needs a GPU and nvcc; prints a line for each command, kernel and shape.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.devices.device import Device
from gemm_lessons.devices.gpu.arena import passed
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.functions import TENSOR_MAP_TYPES
from gemm_lessons.devices.gpu.records import Step
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.verdict import CompileFailed
from gemm_lessons.running.builder import builder_for
from gemm_lessons.running.measuring import steps_of
from gemm_lessons.running.plan import RunPlan, RunRequest

HERE = Path(__file__).parent
COURSE = packaged_course()
SWIZZLES = (0, 32, 64, 128)  # bytes, by their number in cuda.h


def plan(device: Device, lesson: Lesson, shape: Shape, folder: Path) -> Iterator[str]:
    """Yield the lines that the harness reads. It has no textures and no clusters."""
    at = lesson.at(shape)
    source = at.solution_path.read_text(encoding="utf-8")
    kernels = builder_for(device, find_gpu("h200"), lesson.architecture).build(at, at.solution_path, source)
    assert not isinstance(kernels, CompileFailed), kernels
    yield f"size {shape.m} {shape.n} {shape.k} {at.data.factors[0].element.name}"
    yield f"kernel {lesson.name}"
    for layout in at.data.lay_out(shape.names, gap=0).values():
        random = layout.element.name if layout.role == "in" else "poison"
        yield f"buffer {layout.name} {layout.nbytes} {'zeros' if layout.fill == 'zeros' else random}"
    for number, step in enumerate(steps_of(at, kernels, at.grids(shape))):
        yield from _step(at, step, shape, folder / f"{lesson.name}.{number}.{shape.m}.cubin")


def _step(lesson: Lesson, step: Step, shape: Shape, cubin: Path) -> Iterator[str]:
    cubin.write_bytes(step.compiled.cubin)
    sizes = (*step.grid.grid, *step.grid.block, step.grid.dynamic_shared)
    yield f"step {cubin} {step.compiled.entry} {' '.join(map(str, sizes))}"
    for it in passed(lesson.data, shape, step.parameters):
        if "tensor_map" in it:
            yield _map(it["tensor_map"], it["about"])
        else:
            yield f"argument {it['buffer']}" if "buffer" in it else f"argument ={it['raw']}"


def _map(name: str, about: dict[str, Any]) -> str:
    sizes, strides, box = about["sizes"], about["strides"], about["box"]
    kind, swizzle = TENSOR_MAP_TYPES.index(about["element"]), SWIZZLES.index(about["swizzle"])
    return f"map {name} {kind} {len(sizes)} {swizzle} {' '.join(map(str, (*sizes, *strides, *box)))}"


def harness(program: Path, lines: Sequence[str]) -> dict[str, float]:
    """Return the harness's medians in microseconds, by label."""
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: float(row[1]) for row in rows}


def command(*words: str) -> dict[str, Any]:
    """Return what a command of the kit prints with ``--json``."""
    done = subprocess.run(
        [sys.executable, "-m", "gemm_lessons", *words, "--json", "--device", "gpu"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--lessons", default="12,18")
    parser.add_argument("--sizes", default="128,256,512,1024")
    asked = parser.parse_args()
    lessons = [COURSE.lesson(it) for it in asked.lessons.split(",")]
    times: dict[tuple[str, str, str], list[float]] = {}  # command, series, shape
    plain: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = folder / "harness"
        subprocess.run(
            ["nvcc", "-O2", "-x", "cu", "-o", program, HERE / "harness.cpp", "-lcuda", "-lcublas"], check=True
        )  # nvcc 12 or 13
        plans: list[tuple[str, Lesson, list[str]]] = []
        with Gpu() as gpu:
            print(f"{gpu.name}, medians in us", flush=True)
            device = ShadowedGpu(gpu)
            for lesson in lessons:
                request = RunRequest(COURSE, lesson, lesson.solution_path, Simulated(), find_gpu("h200"))
                shapes = [Shape(int(it), int(it), int(it)) for it in asked.sizes.split(",")]
                for shape in dict.fromkeys((*shapes, RunPlan.of(request).timed_shape)):
                    plans.append((str(shape), lesson, list(plan(device, lesson, shape, folder))))

        def without_python() -> None:
            for at, lesson, lines in plans:
                for label, time_us in harness(program, lines).items():
                    name = f"cuBLAS for {lesson.name}" if label == "cuBLAS" else label
                    plain.setdefault((name, at), []).append(time_us)

        without_python()
        kinds: dict[str, str] = {}  # cuBLAS's series -> the lesson whose product it multiplies

        def once() -> None:
            for point in command("bench", "--lessons", asked.lessons, "--sizes", asked.sizes)["points"]:
                size = int(point["size"])
                library, series = f"cuBLAS {point['type']}", point["series"]
                if series == "cuBLAS":
                    series = library
                else:
                    kinds[library] = series
                times.setdefault(("bench", series, str(Shape(size, size, size))), []).append(point["time_us"])
            for lesson in lessons:
                time_us = command("run", lesson.name, "--solution")["time_us"]
                own = next(at for at, it, _ in reversed(plans) if it is lesson)
                times.setdefault(("run", lesson.name, own), []).append(time_us)

        with contextlib.suppress(KeyboardInterrupt):  # ends the runs, not the table
            for number in range(asked.runs):
                once()
                print(f"  run {number + 1}", file=sys.stderr, flush=True)
        without_python()
    worst = 0.0
    for (how, series, at), all_times in times.items():
        beside = plain[f"cuBLAS for {kinds[series]}" if series in kinds else series, at]
        middle, without = statistics.median(all_times), statistics.median(beside)
        apart, off = max(all_times) / min(all_times) - 1, middle / without - 1
        worst = max(worst, apart, abs(off))
        print(
            f"  {how:5} {series:16} {at:16} {min(all_times):8.2f} to {max(all_times):8.2f} ({apart:5.1%})"
            f"  harness {', '.join(f'{it:.2f}' for it in beside)} ({off:+5.1%})",
            flush=True,
        )
    print(f"largest difference {worst:.1%}")


if __name__ == "__main__":
    main()
