"""Kernels of the counters' tests in programs of several, where a file asks for that: see ``checks/together.py``."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def in_programs(together: None) -> None:
    """Let ``simulate`` take its kernel from these programs."""
