"""Measure what kernels of lesson mma take of a GPU's power, and what clock that leaves them: where
``lessons/measured/h200_power.json`` comes from.

    python -m checks.course.power compile DIR                # here: machine code of every kernel
    python -m checks.course.power run DIR lessons/measured/h200_power.json    # on a machine with the GPU and cupy

Each kernel runs for some seconds, launch after launch, and the driver is asked for power and clock meanwhile; what it
says of the first part does not count. Once with normal numbers for A and B, once with zeros: the same instructions, and
hardly a bit that changes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from checks.course.measure import Call, machine, write
from checks.course.mma import ALONE, Types, Variant, compile_all

SIZE = 8192  # M = N = K
SECONDS = 2.0  # of launches; of power and clock the second half counts
LAUNCHES = 10  # between two events
KIND = "tf32"
LIBRARY = f"cublas {KIND}"
FIELDS = "power.draw.instant,clocks.sm,enforced.power.limit"
EVERY_MS = 50
VARIANTS = (
    Variant("mma tf32", KIND),
    Variant("mma tf32_tma", "tf32_tma"),
    Variant("mma tf32 products alone", KIND, edits=ALONE),
)


class Driver:
    """Asks the driver for ``FIELDS`` of one GPU, beside what runs on it."""

    def __init__(self, bus: str) -> None:
        query = [
            "nvidia-smi",
            "-i",
            bus,
            f"--query-gpu={FIELDS}",
            "--format=csv,noheader,nounits",
            "-lms",
            str(EVERY_MS),
        ]
        self.process = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
        self.said: list[tuple[float, tuple[float, ...]]] = []  # when, and watts, MHz, watts at most
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append((time.monotonic(), tuple(float(word) for word in line.split(","))))

    def between(self, start: float, stop: float) -> tuple[float, ...]:
        """The means of what it said from then to then."""
        return tuple(map(statistics.mean, zip(*(what for when, what in self.said if start < when < stop), strict=True)))


def looped(bench: Types, driver: Driver, call: Call) -> dict[str, float]:
    """What a kernel reaches and takes, launched for ``SECONDS``."""
    start, stop = bench.events
    begun, rates = time.monotonic(), []
    while time.monotonic() - begun < SECONDS:
        start.record()
        for _ in range(LAUNCHES):
            call()
        stop.record()
        stop.synchronize()
        rates.append(LAUNCHES * 2 * SIZE**3 / bench.cupy.cuda.get_elapsed_time(start, stop) / 1e9)
    watts, mhz, most = driver.between(begun + SECONDS / 2, time.monotonic())
    late = rates[len(rates) // 2 :]
    return {
        "tflops": round(statistics.mean(late), 1),
        "watts": round(watts),
        "clock_ghz": round(mhz / 1e3, 3),
        "most_watts": round(most),
    }


def run(folder: Path, target: Path) -> None:
    bench = Types(folder, VARIANTS)
    cupy = bench.cupy
    driver = Driver(cupy.cuda.Device().pci_bus_id)
    a, b, c = bench.drawn(KIND, SIZE, SIZE), bench.drawn(KIND, SIZE, SIZE), bench.empty(KIND, SIZE, SIZE)
    zeros = cupy.zeros((SIZE, SIZE), cupy.float32)
    ours: dict[str, Callable[[Any, Any], Call]] = {
        variant.name: lambda x, y, name=variant.name: bench.kernel(name, x, y, c)  # type: ignore[misc]
        for variant in VARIANTS
    }
    kernels = {LIBRARY: lambda x, y: bench.library(KIND, x, y, c), **ours}
    looped(bench, driver, kernels[LIBRARY](a, b))  # until the chip is warm
    rows: list[dict[str, Any]] = []
    for name, of in kernels.items():
        row: dict[str, Any] = {"kernel": name, "size": SIZE, **looped(bench, driver, of(a, b))}
        with_zeros = looped(bench, driver, of(zeros, zeros))
        row |= {f"zeros_{field}": with_zeros[field] for field in ("tflops", "watts", "clock_ghz")}
        row["percent_of_cublas"] = round(100 * row["tflops"] / (rows[0]["tflops"] if rows else row["tflops"]), 1)
        rows.append(row)
        print(row, flush=True)
    about = {
        "command": "python -m checks.course.power compile DIR; python -m checks.course.power run DIR FILE",
        **machine(bench),
        "what": "C = A B in tf32, square. The solution, variants of it (checks/course/power.py) and cuBLAS, each"
        " launched for two seconds on end, with standard normal inputs and with zeros. products alone: a wrong"
        " answer.",
        "how": "CUDA events around ten launches; power.draw.instant and clocks.sm of nvidia-smi, means of the second"
        " half. most_watts: enforced.power.limit.",
    }
    write(target, about, rows)
    driver.process.terminate()


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_all(Path(sys.argv[2]), VARIANTS)
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
