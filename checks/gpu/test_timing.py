"""Arithmetic on times: quartiles, steadiness, schedules, doubts."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemm_lessons.devices.gpu.measure import FEWEST, PLACES, Contestant
from gemm_lessons.devices.gpu.timing import Health, Spread, doubts, is_steady, ratio_within_rounds, repeats, schedule

CALM = Spread.of([100.0] * 9)


def test_spread_is_median_and_quartiles() -> None:
    spread = Spread.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (spread.q1, spread.median, spread.q3) == (2.0, 3.0, 4.0)
    assert spread.times == (5.0, 1.0, 2.0, 4.0, 3.0)
    assert spread.scatter == pytest.approx(2 / 3)
    assert Spread.of([7.0]).median == Spread.of([7.0]).q1 == 7.0


@pytest.mark.parametrize(
    ("times", "steady"),
    [
        ([100, 100, 100], False),  # too few
        ([400, 300, 200, 100], False),  # ramping
        ([400, 100, 100.4, 100.2, 100.9], True),
        ([400, 100, 100.4, 100.2, 101.1], False),
    ],
)
def test_steady_needs_four_bursts_within_a_percent(times: list[float], steady: bool) -> None:
    assert is_steady(times) is steady


def test_repeats_share_the_time_within_bounds() -> None:
    # 0.6 s for three: 0.2 s each.
    assert repeats([1e3, 2e4, 1e6], 0.6, 3, 200) == [200, 10, 3]
    assert repeats([2e3, 0.0, 1e5], 0.6, 3, 200) == [100, 200, 3]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_a_schedule_runs_everyone_as_often_as_told(counts: list[int]) -> None:
    rounds = schedule(counts)
    assert len(rounds) == max(counts)
    for kernel, count in enumerate(counts):
        turns = [number for number, turn in enumerate(rounds) if kernel in turn]
        assert len(turns) == count
        gaps = [later - before for before, later in itertools.pairwise(turns)]
        assert not gaps or max(gaps) - min(gaps) <= 1  # evenly spread
    assert all(len(set(turn)) == len(turn) for turn in rounds)


def test_a_falling_clock_does_not_change_ratios() -> None:
    slow = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]  # what every time is multiplied with, round by round
    base = [10 * it for it in slow]
    kernel = [20 * slow[0], 20 * slow[1]]  # timed in the first rounds only
    assert ratio_within_rounds(base, range(6), kernel, [0, 1]) == pytest.approx(0.5)
    assert ratio_within_rounds([10.0, 30.0], [0, 9], [20.0, 60.0, 60.0], [1, 7, 12]) == pytest.approx(0.5)
    assert ratio_within_rounds([7.0], [3], [14.0], [0]) == 0.5


def test_launches_one_at_a_time_are_doubted() -> None:
    assert doubts({"x": CALM}, Health()) == ()
    [said] = doubts({"x": CALM}, Health(), held=False)
    assert "one at a time" in said


def test_the_first_place_rotates() -> None:
    assert [turn[0] for turn in schedule([6, 6, 6])] == [0, 1, 2, 0, 1, 2]


def test_a_quiet_gpu_gives_no_doubts() -> None:
    health = Health((1980, 1980), 1980, slowed_by=0x01, busy_percent=3, others=())
    assert doubts({"a": CALM, "b": Spread.of([1.0, 1.5, 1.2, 0.9, 1.6])}, health) == ()


@pytest.mark.parametrize(
    ("spread", "health", "said"),
    [
        (CALM, Health(busy_percent=43), "43% busy"),
        (CALM, Health(others=(17,)), "process 17"),
        (CALM, Health(others=(17, 18)), "processes 17, 18"),
        (CALM, Health((1410, 1500), 1980, slowed_by=0x04), "power limit: 1410 of 1980 MHz"),
        (CALM, Health((1410,), None, slowed_by=0x24), "power limit and its temperature: 1410 MHz"),
        (Spread.of([100, 100, 100, 105, 110, 110, 110]), Health(), r"changed by \+10% from first to last"),
        (Spread.of([110, 110, 105, 100, 100, 100]), Health(), "changed by -9%"),
        (Spread.of([100, 130, 100, 130, 100, 130, 100]), Health(), "scatter by 30%"),
    ],
)
def test_each_disturbance_is_said_once(spread: Spread, health: Health, said: str) -> None:
    import re

    found = doubts({"cuBLAS": CALM, "x": spread}, health)
    assert len(found) == 1
    assert re.search(said, found[0]), found[0]


@pytest.mark.parametrize("short", [False, True])
def test_a_short_kernel_is_launched_from_copies_of_its_code(short: bool) -> None:
    launched: list[int] = []
    kernel = Contestant("k", "kernel", [partial(launched.append, place) for place in range(PLACES)], short=short)
    for number in range(FEWEST * PLACES + 2):
        kernel.start()
        kernel.times.append(float(launched[-1]))
        kernel.rounds.append(number)
    result = kernel.result()
    if short:
        assert launched == [number % PLACES for number in range(FEWEST * PLACES + 2)]
        assert result["times_us"] == [(PLACES - 1) / 2] * FEWEST
        assert result["rounds"] == [0, PLACES, 2 * PLACES]
    else:
        assert launched == [0] * (FEWEST * PLACES + 2) == result["times_us"]
        assert result["rounds"] == kernel.rounds
