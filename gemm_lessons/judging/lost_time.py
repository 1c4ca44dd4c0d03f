"""Why a right kernel is slower than the lesson's solution: compares their estimates unit by unit, and the bytes that
each waits for."""

from __future__ import annotations

from collections.abc import Mapping

from gemm_lessons.engine import Counters
from gemm_lessons.judging.evidence import Speed

SLOWER = 1.05  # in time; estimates of edited solutions differ by less than this in half of all cases
SLIGHTLY = 1.01  # in time: enough where a counter shows what is lost
LONGER = 1.5  # bytes waited for / those of the solution
MOSTLY = 0.5  # of the lost time, that a unit's additional work must explain
MORE = 1.05  # work of a unit / that of the solution
WORK: Mapping[str, str] = {
    "issue": "instructions",
    "fp32": "clocks of the multiply-add units",
    "tensor": "clocks of the tensor cores",
    "fp64": "clocks of the fp64 units",
    "shared": "wavefronts in shared memory",
    "l1": "requests to global memory",
    "l2": "traffic to the L2 cache",
    "dram": "traffic to DRAM",
}


def time_lost(mine: Speed, solution: Speed, waited: float = 1.0) -> str:
    """Return how much slower a kernel is than the solution, by their estimates, and why; an empty string where it is
    hardly slower or one of them has no estimate. ``waited``: ``waits_longer`` of their counters."""
    if mine.estimate is None or solution.estimate is None:
        return ""
    time, best = mine.estimate, solution.estimate
    if time.time_us <= (SLIGHTLY if waited >= LONGER else SLOWER) * best.time_us:
        return ""
    more = {unit: time.parts.get(unit, 0.0) - best.parts.get(unit, 0.0) for unit in WORK}
    unit = max(more, key=lambda it: more[it])
    before = best.parts.get(unit, 0.0)
    if more[unit] >= MOSTLY * (time.time_us - best.time_us) and time.parts[unit] >= MORE * before:
        times = f"{_factor(time.parts[unit] / before)} times the " if before else "additional "
        why = f"it needs {times}{WORK[unit]}"
    elif waited >= LONGER:
        why = (
            f"its warps wait for {_factor(waited)} times the bytes from global memory. Too few multiply-adds hide a "
            "load or copy: issue it earlier, and each only once"
        )
    else:
        why = "its warps wait longer, for loads, copies or barriers that less work overlaps"
    return f"{best.time_us / time.time_us:.0%} of the reference's speed (estimated): {why}."


def _factor(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):,.9g}"  # 1.2, 1,300


def waits_longer(mine: Counters | None, solution: Counters | None) -> float:
    """Return the bytes that a kernel waits for / those of the solution; 1 where that is not known."""
    if mine is None or solution is None:
        return 1.0
    bytes_, best = (it.numbers()["global_bytes_waited_for"] for it in (mine, solution))
    return bytes_ / best if bytes_ > 0 and best > 0 else 1.0
