"""Measures the constants behind the estimate on a GPU: ``python -m checks.readings.estimate.constants > NAME.json``.

Needs CuPy and a GPU. Clocks per instruction come from ``clock64`` around a few thousand of them; bandwidths and the
cost of a launch from CUDA events; the clock under load from ``nvidia-smi`` while the lessons' solutions run.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from checks.usage import help_if_asked

STEPS = 4096  # as in constants.cu
ALONE = 200 << 10  # bytes of shared memory of a block, so that a multiprocessor holds one block
WAITED = 4000  # clocks that a block of ``waits`` lasts
HERE = Path(__file__).parent
LESSONS = HERE.parents[2] / "lessons"
LOADED = (  # lessons, under load
    "coalesced", "block_tile", "thread_column", "thread_tile", "vector_loads", "bank_conflicts", "warp_tile",
    "double_buffer",
)  # fmt: skip
ONE_WARP = {"latency_ffma", "latency_integer", "latency_multiply", "latency_shared_32", "latency_shared_128"}
SHARED = [
    "shared_32", "shared_32_uniform", "shared_32_two_ways", "shared_128", "shared_128_uniform", "shared_store_32",
    "shared_store_128",
]  # fmt: skip
MIXES = [
    "mix_nothing", "mix_lds_128", "mix_lds_128_uniform", "mix_lds_32", "mix_lds_32_uniform", "mix_lds_32_four",
    "mix_sts_128", "mix_ldg_128", "mix_logic_four", "mix_logic_sixteen",
]  # fmt: skip
STORES = {"store_32": 32, "store_32_apart": 1, "store_128": 128}  # and the words between two steps
GLOBAL = ["l1_32", "l1_32_uniform", "l1_32_lines", "l1_32_two_lines", "l1_128", "l1_pair"]


class Bench:
    """The micro-kernels, loaded."""

    def __init__(self) -> None:
        self.module = cupy.RawModule(code=(HERE / "constants.cu").read_text(), options=("-std=c++17",))
        self.clocks = cupy.zeros(4096, cupy.int64)
        self.sink = cupy.zeros(1024, cupy.uint32)
        self.data = cupy.zeros(1 << 28, cupy.uint32)  # 1 GiB

    def launch(self, name: str, blocks: int, threads: int, stride: int = 0, words: int = 0) -> None:
        arguments = (self.clocks, self.sink, self.data, np.int32(stride), np.int32(words))
        self.module.get_function(name)((blocks,), (threads,), arguments)

    def clocks_per_step(self, name: str, blocks: int, threads: int, stride: int = 0, words: int = 0) -> float:
        """Of one step of one block, the median of several launches."""
        found = []
        for _ in range(5):
            self.launch(name, blocks, threads, stride, words)
            found.append(float(cupy.median(self.clocks[:blocks])))
        return statistics.median(found) / STEPS

    def chain(self, words: int, step: int) -> None:
        """A cycle through ``words`` of data, in jumps of about ``step`` words in an order no prefetcher follows."""
        places = np.arange(0, words, step, dtype=np.uint32)
        order = np.random.default_rng(1).permutation(places[1:])
        cycle = np.concatenate([places[:1], order])
        following = np.zeros(words, np.uint32)
        following[cycle] = np.roll(cycle, -1)
        self.data[:words] = cupy.asarray(following)


def event_us(start: Callable[[], None]) -> float:
    first, second = cupy.cuda.Event(), cupy.cuda.Event()
    first.record()
    start()
    second.record()
    second.synchronize()
    return float(cupy.cuda.get_elapsed_time(first, second)) * 1e3


def launches(bench: Bench) -> dict[str, float]:
    """Microseconds of an empty kernel between two events: alone, and queued after work; and of two events alone."""
    empty = bench.module.get_function("empty")
    arguments = (bench.clocks, bench.sink, bench.data, np.int32(0), np.int32(0))

    def start() -> None:
        empty((16,), (256,), arguments)

    alone = [event_us(start) for _ in range(200)]
    queued = []
    for _ in range(50):
        bench.launch("bandwidth", 1056, 256, 1, 1 << 26)
        queued.append(event_us(start))
    nothing = []
    for _ in range(50):
        bench.launch("bandwidth", 1056, 256, 1, 1 << 26)
        nothing.append(event_us(lambda: None))
    return {
        "launch_alone_us": statistics.median(alone),
        "launch_queued_us": statistics.median(queued),
        "two_events_us": statistics.median(nothing),
    }


def next_block(bench: Bench, sms: int) -> float:
    """Clocks from the end of a block to the start of the next one in its place, including a few to start and end."""
    function = bench.module.get_function("waits")
    function.max_dynamic_shared_size_bytes = ALONE
    hertz = cupy.cuda.runtime.getDeviceProperties(0)["clockRate"] * 1e3
    arguments = (bench.clocks, bench.sink, bench.data, np.int32(0), np.int32(WAITED))

    def takes(blocks: int) -> float:
        def start() -> None:
            function((sms * blocks,), (128,), arguments, shared_mem=ALONE)

        return statistics.median(event_us(start) for _ in range(11))

    return (takes(64) - takes(16)) * 1e-6 * hertz / 48 - WAITED


class Watch(threading.Thread):
    """Reads clock, power and reasons for slowing down while something runs."""

    def __init__(self) -> None:
        super().__init__()
        self.going = True
        self.seen: list[list[str]] = []

    def run(self) -> None:
        fields = "clocks.sm,power.draw.instant,clocks_event_reasons.active,temperature.gpu"
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-lms", "50"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self.seen.append([word.strip() for word in line.split(",")])
                if not self.going:
                    process.terminate()
                    break


def under_load(start: Callable[[], None], seconds: float) -> dict[str, Any]:
    """Run something repeatedly for ``seconds``; its time, and clock and power, in the second half."""
    watch = Watch()
    watch.start()
    began, times = time.monotonic(), []
    while time.monotonic() - began < seconds:
        times.append(event_us(start))
    watch.going = False
    watch.join()
    late = watch.seen[len(watch.seen) // 2 :]
    return {
        "median_us": statistics.median(times[len(times) // 2 :]),
        "first_us": times[0],
        "sm_mhz": statistics.median(float(row[0]) for row in late),
        "watts": statistics.median(float(row[1]) for row in late),
        "reasons": sorted({row[2] for row in late}),
        "celsius": late[-1][3],
        "samples": len(late),
    }


def solution(name: str, size: int) -> Callable[[], None]:
    """A function that launches a lesson's solution at M = N = K = ``size``."""
    import tomllib

    folder = next(LESSONS.glob(f"??_{name}"))
    settings = tomllib.loads((folder / "lesson.toml").read_text())
    tile = settings.get("tile", {})
    options = ["-std=c++17", f"-I{LESSONS / 'common'}", *(f"-D{key}={value}" for key, value in tile.items())]
    kernel = cupy.RawModule(code=(folder / "solution.cu").read_text(), options=tuple(options)).get_function("gemm")
    names = {**tile, "M": size, "N": size, "K": size, "ceil_div": lambda a, b: -(-a // b)}
    grid, block = ([int(eval(text, {}, names)) for text in settings["launch"][key]] for key in ("grid", "block"))
    a, b = (cupy.random.standard_normal((size, size), dtype=cupy.float32) for _ in range(2))
    c = cupy.zeros((size, size), cupy.float32)
    arguments = (a, b, c, np.int32(size), np.int32(size), np.int32(size))
    return lambda: kernel(tuple(grid), tuple(block), arguments)


def main() -> None:
    bench, found = Bench(), {}
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    sms = properties["multiProcessorCount"]
    found["gpu"], found["sms"] = properties["name"].decode(), sms
    found["launch"] = launches(bench)
    clocks: dict[str, float] = {}
    for name in sorted(ONE_WARP):
        clocks[name] = bench.clocks_per_step(name, 1, 32)
    for threads in (32, 128, 256, 512, 1024):
        clocks[f"latency_barrier_{threads}"] = bench.clocks_per_step("latency_barrier", 1, threads)
    clocks["latency_branch"] = bench.clocks_per_step("latency_branch", 1, 32) / 2
    clocks["next_block"] = next_block(bench, sms)
    bench.data[:] = 0
    clocks["latency_l2_128"] = bench.clocks_per_step("latency_l2_128", 1, 32)
    bench.chain(1 << 12, 32)
    clocks["latency_l1"] = bench.clocks_per_step("latency_l1", 1, 1, words=256)
    for megabytes, name in ((4, "latency_l2_4mb"), (16, "latency_l2_16mb"), (32, "latency_l2_32mb")):
        words = megabytes << 18
        bench.chain(words, 512)
        clocks[name] = bench.clocks_per_step("latency_l2", 1, 1, words=words // 512)
    bench.chain(1 << 28, 1 << 10)
    bench.launch("bandwidth", 1056, 256, 1, 1 << 27)  # so that the chain's lines have left L2
    bench.launch("latency_l2", 1, 1)
    clocks["latency_dram"] = float(bench.clocks[0]) / STEPS
    bench.data[:] = 0
    for name in SHARED:
        clocks[name] = bench.clocks_per_step(name, sms * 2, 1024) / 64  # warps of a multiprocessor
        clocks[f"{name} 1 block of 8 warps"] = bench.clocks_per_step(name, sms, 256) / 8
    for name in GLOBAL:
        clocks[name] = bench.clocks_per_step(name, sms * 2, 1024) / 64
        clocks[f"{name} 1 block of 8 warps"] = bench.clocks_per_step(name, sms, 256) / 8
    for name in MIXES:  # a scheduler's clocks for 64 multiply-adds of one warp and the instructions beside them
        for warps in (1, 2, 4):
            value = bench.clocks_per_step(name, sms, 128 * warps) / warps * 64
            clocks[f"{name} {warps} warps a scheduler"] = value
    for name, step in STORES.items():
        for blocks in (16, sms):
            clocks[f"{name} {blocks} blocks of 8 warps"] = bench.clocks_per_step(name, blocks, 256, step) / 8 * 64
    clocks["ffma"] = bench.clocks_per_step("ffma", sms * 2, 1024) / 16  # warps of a scheduler
    found["clocks"] = {name: round(value, 3) for name, value in clocks.items()}
    rates = {}
    for megabytes, rounds in ((8, 200), (16, 100), (24, 60), (32, 50), (48, 30), (1024, 3)):
        words = megabytes << 18
        bench.launch("bandwidth", sms * 8, 256, 1, words)
        start = partial(bench.launch, "bandwidth", sms * 8, 256, rounds, words)
        us = min(event_us(start) for _ in range(3))
        rates[f"{megabytes} MiB"] = round(megabytes * 2**20 * rounds / us / 1e3)
    found["gb_per_s"] = rates
    found["load"] = {"ffma": under_load(lambda: bench.launch("ffma", sms * 64, 1024), 1.5)}
    for name in LOADED:
        found["load"][name] = under_load(solution(name, 8192), 1.5)
    a, b = (cupy.random.standard_normal((8192, 8192), dtype=cupy.float32) for _ in range(2))
    c = cupy.zeros((8192, 8192), cupy.float32)
    found["load"]["cublas"] = under_load(lambda: cupy.matmul(a, b, out=c), 1.5)
    quiet = solution("double_buffer", 4096)
    time.sleep(3)
    found["double_buffer_after_a_pause_us"] = [round(event_us(quiet), 1) for _ in range(30)]
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
