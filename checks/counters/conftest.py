"""Kernels of the counters' tests in programs of several, where a file asks for that: see ``checks/together.py``."""

from __future__ import annotations

import pytest

from checks.together import Together, of_module
from gemm_lessons.engine import api


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest) -> Together | None:
    """The file's kernels compiled several at a time, if it sets ``TOGETHER``."""
    return of_module(request, lambda item: {})


@pytest.fixture(autouse=True)
def together(programs: Together | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``simulate`` take its kernel from these programs."""
    if programs is not None:
        monkeypatch.setattr(api, "take", programs.take)
