"""How fast the kit is on this machine: ``python -m checks.benchmark``. No test asserts these times.

    python -m checks.benchmark                  every row: some minutes
    python -m checks.benchmark --only 03 list   rows with one of these words: lesson 03, and the start of ``list``
    python -m checks.benchmark --json           the same rows, each as an object of JSON on a line of its own

Commands are timed as medians over fresh processes, so that the first one fills the cache of compilations for the
others. The right column is the project's aim. With numba installed (``pip install numba``) its CUDA simulator, which
runs Python kernels thread by thread, does the same naive and block-tile GEMM for comparison.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPEATS = 5
NUMBA_SIZE = 32  # its simulator starts a Python thread per CUDA thread: larger sizes take minutes
START_S = 0.25  # the aim for a command that only prints
# Numbers of lessons, and the aim in seconds for `run` with a warm cache. The other lessons have none.
RUN_S = ((range(1, 5), 2.0), (range(13, 18), 2.0), (range(18, 23), 3.0), (range(23, 28), 2.0))


@dataclass(frozen=True)
class Row:
    """One measurement; ``aim`` is a bound on the value, from below if ``more`` is better."""

    what: str
    value: float
    unit: str
    aim: float | None = None
    more: bool = False

    def text(self) -> str:
        digits = {"s": ".3f" if self.value < 1 else ".2f", "/s": ".2e"}.get(self.unit, ".0f")
        aim = "" if self.aim is None else f"{'>' if self.more else '<'} {self.aim:g} {self.unit}"
        return f"{self.what:<60} {self.value:>12{digits}} {self.unit:<3} {aim}".rstrip()


def process(*command: str) -> float:
    """Median wall seconds of ``python *command`` from cold processes. Raise ``CalledProcessError`` if it fails."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


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


def measured(lesson: str, size: int) -> dict[str, float]:
    """``simulate_lesson`` in a process of its own, whose memory is then that of one launch."""
    command = [sys.executable, "-m", "checks.benchmark", "--launch", lesson, str(size)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def starts() -> Iterator[Row]:
    """Commands that import little."""
    for command in ("list", "--help"):
        yield Row(f"gemm-lessons {command}, cold process", process("-m", "gemm_lessons", command), "s", START_S)


def run_aim(number: int) -> float | None:
    """The aim for ``run`` of this lesson, in seconds."""
    return next((seconds for numbers, seconds in RUN_S if number in numbers), None)


def run_of(number: str) -> Iterator[Row]:
    """``run`` of a lesson's solution, warm from the second process on."""
    seconds = process("-m", "gemm_lessons", "run", number, "--solution")
    yield Row(f"gemm-lessons run {number} --solution, cold process", seconds, "s", run_aim(int(number)))


def launch_of(size: int, aim: float) -> Iterator[Row]:
    """One simulated launch of a large product."""
    result = measured("thread_tile", size)
    yield Row(f"thread tile {size}^3 simulated, counters and checkers on", result["seconds"], "s", aim)
    yield Row("    lane instructions per second", result["lane_instructions_per_second"], "/s")
    yield Row("    peak memory of the process", result["peak_mb"], "MB", 1000)


def beside_numba(label: str, lesson: str) -> Iterator[Row]:
    """A launch beside the same one on numba's simulator; without numba a note on stderr."""
    try:
        from checks import numba_gemm
    except ImportError:
        print(f"{label}: not compared, since numba is not installed", file=sys.stderr)
        return
    kernel = {"naive": numba_gemm.naive, "block tile": numba_gemm.block_tile}[label]
    ours = measured(lesson, 256)["seconds"] / 256**3
    theirs = numba_gemm.seconds(kernel, NUMBA_SIZE) / NUMBA_SIZE**3
    yield Row(f"{label}: time per multiply-add, numba's simulator / ours", theirs / ours, "x", 300, more=True)


def parts() -> dict[str, Callable[[], Iterator[Row]]]:
    """The parts of the benchmark, under the words that choose them."""
    lessons = sorted(path.parent.name for path in (ROOT / "lessons").glob("[0-9]*/lesson.toml"))
    return {
        "list --help start": starts,
        **{f"run {name} {name[:2]}": partial(run_of, name[:2]) for name in lessons},
        "launch 512": partial(launch_of, 512, 1),
        "launch 1024": partial(launch_of, 1024, 4),
        "numba naive": partial(beside_numba, "naive", "coalesced"),
        "numba block tile": partial(beside_numba, "block tile", "block_tile"),
    }


def chosen(words: Sequence[str]) -> list[Callable[[], Iterator[Row]]]:
    """The parts that one of these words chooses; without words all. Exit if a word chooses none."""
    names = {word: [name for name in parts() if word in name.split()] for word in words}
    if unknown := [word for word, found in names.items() if not found]:
        raise SystemExit(f"no row has the word {unknown[0]}; there are: " + "; ".join(parts()))
    return [part for name, part in parts().items() if not words or any(name in found for found in names.values())]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m checks.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", metavar="WORD", default=[], help="rows with one of these words")
    parser.add_argument("--json", action="store_true", help="print an object of JSON for each row")
    parser.add_argument("--launch", nargs=2, metavar=("LESSON", "SIZE"), help="one launch, in this process, as JSON")
    options = parser.parse_args()
    if options.launch:
        print(json.dumps(simulate_lesson(options.launch[0], int(options.launch[1]))))
        return
    for part in chosen(options.only):
        for row in part():
            print(json.dumps(asdict(row)) if options.json else row.text(), flush=True)


if __name__ == "__main__":
    main()
