"""The type of NumPy arrays in annotations."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]  # of any shape and element type; docstrings say which
