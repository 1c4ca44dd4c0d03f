"""The special function unit beside an H200, bit for bit: every fraction, every exponent."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from checks.readings.simulator.special_functions import HASHES, digest, operands
from gemm_lessons.engine.semantics import special_functions as unit

READ = json.loads(HASHES.read_text())["results"]


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def wrong(name: str, part: str) -> bool:
    with np.errstate(all="ignore"):
        return digest(unit.FUNCTIONS[name](operands(name)[part])) != READ[f"{name} {part}"]


@pytest.mark.parametrize("name", unit.FUNCTIONS)
@pytest.mark.parametrize("part", ["some", "extremes"])
def test_results_are_an_h200_s(name: str, part: str) -> None:
    assert not wrong(name, part)


@pytest.mark.long
@pytest.mark.parametrize("key", [key for key in READ if key.split()[1] not in ("some", "extremes")])
def test_every_fraction(key: str) -> None:
    assert not wrong(*key.split())


def test_one_coefficient_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    table = unit.coefficients("ex2").copy()
    table[31, 2] += 4  # the smallest step of a coefficient
    monkeypatch.setattr(unit, "coefficients", lambda name: table)
    assert wrong("ex2", "some")


def test_logarithms_of_small_powers_of_two_are_not_whole() -> None:
    """As on hardware: a negative fixed-point number is complemented, not negated."""
    assert unit.lg2(floats(0.25, 1, 4)).tolist() == [float.fromhex("-0x1.fffffep0"), 0, 2]


def test_numbers_that_the_unit_does_not_know() -> None:
    subnormal = floats(1e-40, -1e-40)
    assert unit.rcp(subnormal).tolist() == [np.inf, -np.inf]
    assert unit.ex2(floats(-126.5, -np.inf, 128)).tolist() == [0, 0, np.inf]
    assert np.isnan(unit.sin(floats(np.inf, np.nan))).all()
