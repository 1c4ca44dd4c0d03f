"""Graded runs without their dearest launches, for tests of something else."""

from __future__ import annotations

import pytest

from gemm_lessons.running import plan as planning
from gemm_lessons.running.counted_shapes import hidden_counts


def leave_out_far_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the far sample and the large shape: two thirds of a graded run's time."""
    monkeypatch.setattr(planning, "hidden_sample", lambda lesson, seed: None)
    monkeypatch.setattr(planning, "hidden_instead", lambda lesson, seed: ())
    monkeypatch.setattr(planning, "hidden_and_counted", hidden_counts)
