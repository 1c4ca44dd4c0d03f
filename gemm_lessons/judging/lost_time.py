"""Why a right kernel is slower than the lesson's solution: their estimates compared, unit by unit."""

from __future__ import annotations

from collections.abc import Mapping

from gemm_lessons.judging.evidence import Speed

SLOWER = 1.05  # in time; estimates of edited solutions differ by less than this in half of all cases
MOSTLY = 0.5  # of the lost time, that a unit's additional work must explain
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


def lost_time(mine: Speed, solution: Speed) -> str:
    """Return how much slower a kernel is than the solution, by their estimates, and why; an empty string where it is
    hardly slower or one of them has no estimate."""
    if mine.estimate is None or solution.estimate is None:
        return ""
    time, best = mine.estimate, solution.estimate
    if time.time_us <= SLOWER * best.time_us:
        return ""
    more = {unit: time.parts.get(unit, 0.0) - best.parts.get(unit, 0.0) for unit in WORK}
    unit = max(more, key=lambda it: more[it])
    if more[unit] >= MOSTLY * (time.time_us - best.time_us):
        before = best.parts.get(unit, 0.0)
        times = f"{time.parts[unit] / before:.2g} times the " if before else "additional "
        why = f"it needs {times}{WORK[unit]}"
    else:
        why = "its warps wait longer, for loads, copies or barriers that less work overlaps"
    return f"{best.time_us / time.time_us:.0%} of the reference's speed (estimated): {why}."
