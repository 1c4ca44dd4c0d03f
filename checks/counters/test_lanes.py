"""Active lanes of machine instructions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gemm_lessons.engine.sass.lanes import Lanes


@pytest.mark.parametrize("shape", [(1,), ()])
@pytest.mark.parametrize("negated", [False, True])
def test_a_guard_that_is_one_for_all_lanes_may_have_no_axis(shape: tuple[int, ...], negated: bool) -> None:
    """A negated uniform predicate is a NumPy scalar, not an array, which once made a lesson unsupported."""
    held = np.full(shape, True)
    some, mask = Lanes.active(cast(Any, SimpleNamespace(mask=None)), lambda: ~held if negated else held)
    assert (some, mask) == (not negated, None)
