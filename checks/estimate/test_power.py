"""The clock under power, by hand: what lowers it, what DRAM adds, and how much more a single launch may draw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemm_lessons.engine.estimate.chip import BETWEEN_US, SLOW, Clocked, Load, paced
from gemm_lessons.engine.hardware.sheets import GPUS

H200 = GPUS["h200"]
POWER = H200.power
assert POWER is not None
MILLION = 1e6
PRODUCTS = Load(
    lambda hz: MILLION / hz, 132 * MILLION, 0.0, lambda _: 0.0, on_end=True
)  # all tensor cores multiply all the time


def test_a_chip_with_little_to_do_keeps_its_highest_clock() -> None:
    pace = paced(replace(PRODUCTS, tensor_clocks=0.0), H200)
    assert pace.clock_hz == POWER.clock_hz
    assert pace.watts == POWER.idle_watts
    assert pace.seconds == pytest.approx(MILLION / POWER.clock_hz)


def test_products_lower_the_clock_until_the_power_is_what_it_may_be() -> None:
    pace = paced(PRODUCTS, H200)
    assert pace.watts == pytest.approx(POWER.most_watts, abs=0.1)
    # 132 multiprocessors, an energy that falls with the clock, as often as the clock; a pause until the next launch
    squared = (POWER.most_watts - POWER.idle_watts) / (132 * POWER.product_joules) * POWER.clock_hz
    working = pace.seconds / (pace.seconds + BETWEEN_US / 1e6)
    assert pace.clock_hz == pytest.approx((squared / working) ** 0.5, rel=1e-3)
    assert pace.seconds == pytest.approx(MILLION / pace.clock_hz)


def test_bytes_take_power_and_a_single_launch_may_draw_more() -> None:
    alone = paced(PRODUCTS, H200)
    fed = paced(replace(PRODUCTS, l2_bytes=132 * 40 * MILLION), H200)
    assert fed.clock_hz < 0.95 * alone.clock_hz
    once = paced(replace(PRODUCTS, on_end=False), H200)
    assert POWER.most_watts < once.watts <= POWER.burst_watts
    assert once.clock_hz > alone.clock_hz


def test_dram_bounds_the_time_and_leaves_the_clock_higher() -> None:
    slow = 10e-3 * 0.9 * H200.dram_bytes_per_s  # bytes of ten milliseconds
    pace = paced(replace(PRODUCTS, dram_bytes=lambda _: slow), H200)
    assert pace.seconds == pytest.approx(10e-3, rel=0.01)
    assert pace.clock_hz > paced(PRODUCTS, H200).clock_hz
    assert pace.dram_bytes == slow


def test_what_waits_for_l2_waits_for_fewer_clocks_at_a_lower_clock() -> None:
    fast = {"latency": 100.0, "tensor": 60.0}  # 40 microseconds of waiting for L2
    slow = {"latency": 40 + 60 / SLOW, "tensor": 60 / SLOW}
    parts = Clocked(fast, slow, 2e9)
    for clock in (2e9, 1.8e9, SLOW * 2e9):
        assert parts.at(clock) == pytest.approx({"latency": 40 + 60 * 2e9 / clock, "tensor": 60 * 2e9 / clock})
        assert parts.working(clock) == pytest.approx(parts.at(clock)["latency"] / 1e6)


def test_blocks_that_drift_apart_fetch_more_the_more_dram_is_busy() -> None:
    def fetched(busy: float) -> float:
        return 1e9 + 6e9 * busy**2

    load = Load(lambda hz: 2.5e6 / hz, 132 * 2e6, 17e9, fetched)
    few, many = (paced(load, GPUS[name]) for name in ("h200", "h100"))
    assert 1e9 < few.dram_bytes < many.dram_bytes < 7e9
    assert many.seconds > few.seconds
