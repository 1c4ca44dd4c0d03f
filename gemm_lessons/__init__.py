"""gemm-lessons: learn to make a CUDA matrix multiplication fast, with or without a GPU.

    from gemm_lessons import engine        any CUDA kernel, from Python
    from gemm_lessons import simulate      the same in one call
    %load_ext gemm_lessons                 the lessons in a notebook

They are imported on first use, so that the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemm_lessons.engine import simulate

__all__ = ["__version__", "simulate"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "simulate":
        from gemm_lessons.engine import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Load the magics, for ``%load_ext gemm_lessons``."""
    from gemm_lessons.notebook import load

    load(shell)
