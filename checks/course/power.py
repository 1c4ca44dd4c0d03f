"""Power that kernels of lesson precision draw, and the clock at which the GPU then runs them: the table power.

Each kernel runs for ``SECONDS``, launch after launch, while the driver reports power and clock; only the second half
counts. Each runs twice, with normal numbers for A and B and with zeros: the same instructions, but hardly a bit
toggles.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from threading import Thread
from typing import Any

from checks.course.bench import Bench, Call
from checks.course.tables import Problem

TABLE = "power"
SECONDS = 2.0  # of launches; of power and clock the second half counts
LAUNCHES = 10  # between two events
EVERY_MS = 50


class Driver:
    """Samples power, clock and power limit of one GPU through ``nvidia-smi`` while kernels run on it."""

    def __init__(self, bus: str) -> None:
        fields = "power.draw.instant,clocks.sm,enforced.power.limit"
        query = ["nvidia-smi", "-i", bus, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
        self.process = subprocess.Popen([*query, "-lms", str(EVERY_MS)], stdout=subprocess.PIPE, text=True)
        self.said: list[tuple[float, tuple[float, ...]]] = []  # when, and watts, MHz, watts at most
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append((time.monotonic(), tuple(float(word) for word in line.split(","))))

    def between(self, start: float, stop: float) -> tuple[float, ...]:
        """Mean watts, MHz and watts at most of the samples between two ``time.monotonic()`` seconds."""
        return tuple(map(statistics.mean, zip(*(what for when, what in self.said if start < when < stop), strict=True)))


def measure(bench: Bench) -> list[dict[str, Any]]:
    """Return the rows of every type: one for cuBLAS, and one for each kernel."""
    driver = Driver(bench.cupy.cuda.Device().pci_bus_id)
    rows = [row for problem in bench.table.problems() for row in measure_type(bench, driver, problem)]
    driver.process.terminate()
    return rows


def measure_type(bench: Bench, driver: Driver, problem: Problem) -> list[dict[str, Any]]:
    """Return a row for cuBLAS and one for each kernel that multiplies this type."""
    kind, shape = problem.kind, problem.shape
    a, b, c = bench.given(kind, shape)
    zeros = bench.cupy.zeros_like(a)  # A and B are squares
    library = bench.table.library(kind)
    calls = {library: (bench.library(kind, a, b, c), bench.library(kind, zeros, zeros, c))}
    for name in bench.names(kind, shape):
        calls[name] = (bench.kernel(name, a, b, c), bench.kernel(name, zeros, zeros, c))
    looped(bench, driver, calls[library][0], problem)  # until the chip is warm
    rows: list[dict[str, Any]] = []
    for name, (normal, of_zeros) in calls.items():
        row: dict[str, Any] = {"kernel": name, "size": problem.size, **looped(bench, driver, normal, problem)}
        with_zeros = looped(bench, driver, of_zeros, problem)
        row |= {f"zeros_{field}": with_zeros[field] for field in ("tflops", "watts", "clock_ghz")}
        rows.append(row)
        row["percent_of_cublas"] = round(100 * row["tflops"] / rows[0]["tflops"], 1)
        print(row, flush=True)
    return rows


def looped(bench: Bench, driver: Driver, call: Call, problem: Problem) -> dict[str, float]:
    """Launch a kernel for ``SECONDS``; return its TFLOP/s, watts, clock and the power limit."""
    start, stop = bench.events
    operations = 2 * problem.shape.m * problem.shape.n * problem.shape.k
    begun, rates = time.monotonic(), []
    while time.monotonic() - begun < SECONDS:
        start.record()
        for _ in range(LAUNCHES):
            call()
        stop.record()
        stop.synchronize()
        rates.append(LAUNCHES * operations / bench.cupy.cuda.get_elapsed_time(start, stop) / 1e9)
    watts, mhz, most = driver.between(begun + SECONDS / 2, time.monotonic())
    return {
        "tflops": round(statistics.mean(rates[len(rates) // 2 :]), 1),
        "watts": round(watts),
        "clock_ghz": round(mhz / 1e3, 3),
        "most_watts": round(most),
    }
