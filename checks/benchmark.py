"""How fast the kit is on this machine: ``python -m checks.benchmark``. No test asserts these times.

Commands are timed as medians over fresh processes. The right column is the project's aim. With numba installed
(``pip install numba``) its CUDA simulator, which runs Python kernels thread by thread, does the same naive and
block-tile GEMM for comparison.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
REPEATS = 5
NUMBA_SIZE = 32  # its simulator starts a Python thread per CUDA thread: larger sizes take minutes


def process(*command: str) -> tuple[float, str]:
    """Median wall seconds of ``python *command`` from cold processes, and what the last one printed."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
        times.append(time.perf_counter() - start)
    return statistics.median(times), done.stdout


def simulate_lesson(number: str, size: int) -> dict[str, float]:
    """Launch a lesson's solution once at size^3, with counters and checkers as on every run. Wall seconds, lane
    instructions per second, and the peak memory of this process in MB."""
    import numpy as np

    from checks.course.kernel import Kernel
    from gemm_lessons.course.folder import Course
    from gemm_lessons.engine.records.launch import Buffer, Scalar
    from gemm_lessons.engine.simulator import Simulator
    from gemm_lessons.gemm.shapes import Shape

    lesson = Course(ROOT).lesson(number)
    compiled = Kernel.solution(lesson).compiled()
    assert compiled.sass
    rng = np.random.default_rng(1)
    a, b = (rng.random((size, size), np.float32) for _ in range(2))
    c = np.full((size, size), np.nan, np.float32)
    buffers = [Buffer("A", a), Buffer("B", b), Buffer("C", c, True)]
    grid = lesson.grids(Shape(size, size, size))[0]
    start = time.perf_counter()
    launched = Simulator().launch(compiled, grid, [*buffers, *(Scalar(n, np.int32(size)) for n in "MNK")])
    seconds = time.perf_counter() - start
    assert launched.fault is None
    assert np.allclose(c, a @ b, rtol=1e-4)
    instructions = sum(launched.counters.opcodes.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"seconds": seconds, "lane_instructions_per_second": instructions * 32 / seconds, "peak_mb": peak}


def row(name: str, value: str, target: str = "") -> None:
    print(f"{name:<58} {value:>14}   {target}", flush=True)


def measured(*arguments: str) -> Any:
    """What ``python -m checks.benchmark ARGUMENTS`` prints in a process of its own, as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "checks.benchmark", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def main() -> None:
    row("what", "median", "aim")
    for command in (["list"], ["--help"]):
        seconds, _ = process("-m", "gemm_lessons", *command)
        row(f"gemm-lessons {command[0]}, cold process", f"{seconds:.3f} s", "< 0.25 s")
    lessons = sorted(path.parent.name for path in (ROOT / "lessons").glob("[0-9]*/lesson.toml"))
    for name in lessons:
        seconds, _ = process("-m", "gemm_lessons", "run", name[:2], "--solution")
        row(f"gemm-lessons run {name[:2]} --solution, cold process", f"{seconds:.2f} s", "< 2 s (01 to 04)")
    for size, aim in ((512, "< 1 s"), (1024, "< 4 s")):
        result = measured("gemm", "thread_tile", str(size))
        row(f"thread tile {size}^3 simulated, counters and checkers on", f"{result['seconds']:.2f} s", aim)
        row("    lane instructions per second", f"{result['lane_instructions_per_second']:.2e}")
        row("    peak memory of the process", f"{result['peak_mb']:.0f} MB", "< 1000 MB")
    try:
        from checks import numba_gemm
    except ImportError:
        row("ratio to numba's CUDA simulator", "no numba", "pip install numba")
        return
    for label, number, kernel in (
        ("naive", "coalesced", numba_gemm.naive),
        ("block tile", "block_tile", numba_gemm.block_tile),
    ):
        ours = measured("gemm", number, "256")["seconds"] / 256**3
        theirs = numba_gemm.seconds(kernel, NUMBA_SIZE) / NUMBA_SIZE**3
        row(f"{label}: time per multiply-add, numba's CUDA simulator / ours", f"{theirs / ours:.0f} x", "> 300 x")


if __name__ == "__main__":
    if sys.argv[1:2] == ["gemm"]:
        print(json.dumps(simulate_lesson(sys.argv[2], int(sys.argv[3]))))
    else:
        main()
