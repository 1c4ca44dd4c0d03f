"""From one multiprocessor to a launch on the whole chip: constants and rules of every estimate.

Times are of an H200 unless their comment says otherwise; ``lessons/common/ESTIMATE.md`` says how far they carry.
"""

from __future__ import annotations

from collections.abc import Mapping

from gemm_lessons.engine.hardware.sheets import GpuSpec

LAUNCH_US = 6.5  # an empty kernel between two CUDA events on an idle H200: 5.9 and 7.0 in two runs of checks/estimate
NEXT_US = 2.7  # one that follows another launch: the same, queued (launch_queued_us of the same readings)
HOT = 0.75  # share of the multiprocessors whose tensor cores lower the clock: half of an H200's do not, 128 of 132 do
HEATING = ("HMMA", "IMMA", "HGMMA", "IGMMA", "QGMMA")  # the products that do; fp64 is sold at the highest clock
BUSY = 0.75  # share of the time from which on a unit counts as what limits a kernel


def at_work(gpu: GpuSpec, blocks: int, products: bool) -> GpuSpec:
    """Return ``gpu`` with its clock while ``blocks`` blocks run; ``products``: on tensor cores that lower it."""
    return gpu.hot if products and blocks >= HOT * gpu.sms else gpu


def limiter_of(parts: Mapping[str, float], busiest: str) -> str:
    """Return the bottleneck of a launch.

    Memory or the launch itself, if one takes longest; else the ``busiest`` unit of the multiprocessors if it is busy
    for ``BUSY`` of their time; else ``latency``. ``parts`` are microseconds.
    """
    slowest = max(("latency", "l2", "dram", "launch"), key=lambda name: parts[name])
    return busiest if slowest == "latency" and parts[busiest] >= BUSY * parts["latency"] else slowest
