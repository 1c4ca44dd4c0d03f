"""What a right kernel is told that is slower than the solution."""

from __future__ import annotations

import pytest

from gemm_lessons.engine.records.metrics import COUNTED
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimate
from gemm_lessons.judging.evidence import UNTIMED, Speed
from gemm_lessons.judging.lost_time import time_lost, waits_longer

SOLUTION = {"issue": 60.0, "shared": 80.0, "latency": 100.0}


def speed(time_us: float, **parts: float) -> Speed:
    return Speed(Estimate("H200", Shape(1, 1, 1), time_us, 1.0, "latency", {**SOLUTION, **parts}))


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (speed(100.0), ""),
        (speed(104.0, issue=64.0), ""),
        (UNTIMED, ""),
        (speed(125.0, shared=120.0), "80%: it needs 1.5 times the wavefronts in shared memory."),
        (speed(125.0, shared=104000.0), "80%: it needs 1,300 times the wavefronts in shared memory."),
        (speed(125.0, l1=30.0), "80%: it needs additional requests to global memory."),
        (
            speed(125.0, shared=81.0),
            "80%: its warps wait longer, for loads, copies or barriers that less work overlaps.",
        ),
    ],
)
def test_the_largest_difference_in_work_is_named_if_it_explains_the_loss(mine: Speed, told: str) -> None:
    whole = told.replace("80%: ", "80% of the reference's speed (estimated): ")
    assert time_lost(mine, speed(100.0)) == whole


TWICE = (
    "its warps wait for 2 times the bytes from global memory. Too few multiply-adds hide a load or copy: issue it "
    "earlier, and each only once."
)


@pytest.mark.parametrize(
    ("mine", "waited", "told"),
    [
        (speed(104.0), 2.0, f"96%: {TWICE}"),
        (speed(125.0), 2.0, f"80%: {TWICE}"),
        (speed(125.0, shared=120.0), 2.0, "80%: it needs 1.5 times the wavefronts in shared memory."),
        (speed(104.0, shared=83.0), 2.0, f"96%: {TWICE}"),
        (speed(104.0), 1.2, ""),
        (speed(100.5), 2.0, ""),
    ],
)
def test_loads_that_too_little_work_hides_are_named_even_where_little_is_lost(
    mine: Speed, waited: float, told: str
) -> None:
    whole = told.replace("%: ", "% of the reference's speed (estimated): ")
    assert time_lost(mine, speed(100.0), waited) == whole


def test_bytes_waited_for_are_compared_where_both_were_counted() -> None:
    def waiting(bytes_: int) -> Counters:
        return Counters({COUNTED["global_bytes_waited_for"]: bytes_})

    assert waits_longer(waiting(12_288), waiting(6_144)) == 2
    assert waits_longer(waiting(12_288), waiting(0)) == 1
    assert waits_longer(Counters({}), waiting(6_144)) == 1
    assert waits_longer(None, waiting(6_144)) == 1


def test_without_an_estimate_of_the_solution_nothing_is_said() -> None:
    assert time_lost(speed(500.0), UNTIMED) == ""
