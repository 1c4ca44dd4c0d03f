"""What a right kernel is told that is slower than the solution."""

from __future__ import annotations

import pytest

from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimate
from gemm_lessons.judging.evidence import UNTIMED, Speed
from gemm_lessons.judging.lost_time import lost_time

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
        (speed(125.0, l1=30.0), "80%: it needs additional requests to global memory."),
        (
            speed(125.0, shared=81.0),
            "80%: its warps wait longer, for loads, copies or barriers that less work overlaps.",
        ),
    ],
)
def test_the_largest_difference_in_work_is_named_if_it_explains_the_loss(mine: Speed, told: str) -> None:
    whole = told.replace("80%: ", "80% of the reference's speed (estimated): ")
    assert lost_time(mine, speed(100.0)) == whole


def test_without_an_estimate_of_the_solution_nothing_is_said() -> None:
    assert lost_time(speed(500.0), UNTIMED) == ""
