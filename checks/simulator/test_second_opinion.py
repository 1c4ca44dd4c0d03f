"""Two engines follow a counted launch, and a mistake in either of them is told of as what it is."""

from __future__ import annotations

import pytest

from checks.simulator import planted


@pytest.mark.parametrize("entry", ["walk", "mixed"])
def test_nothing_is_said_of_engines_that_agree(entry):
    launched = planted.launch(entry)
    assert launched.fault is None
    assert not launched.findings
    assert not launched.counters.inexact


@pytest.mark.parametrize("one", planted.ALL, ids=[one.name for one in planted.ALL])
def test_a_planted_mistake_is_told_of(one):
    told = one.verdict()
    assert "this is a fault of gemm-lessons, not of the kernel" in told.lower(), told
    assert "no verdict" in told
