"""The record of what one computational PTX instruction does to registers. Every table of semantics consists of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.records.frozen import dataclass

Array = np.ndarray[Any, Any]
Function = Callable[..., None]

# dtype in which the machine views a register of each type code. Packed pairs and bfloat16 stay raw bits.
DTYPES: Mapping[str, Any] = {
    "pred": np.bool_,
    **{f"u{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"s{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"b{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": getattr(np, f"float{bits}") for bits in (16, 32, 64)},
    "bf16": np.uint16,
    **dict.fromkeys(("f16x2", "bf16x2", "u16x2", "s16x2", "tf32"), np.uint32),
}


@dataclass(frozen=True)
class Operation:
    """``function(*outs, *sources)`` writes one row of lanes per result.

    ``result`` and ``sources`` hold type codes (keys of ``DTYPES``). Outs are contiguous arrays (lanes,) and may share
    the memory of a source; sources are arrays (lanes,) or NumPy scalars. An 8-bit result or source is held in a wider
    register: pass its out as that register's integer view with the sign of the code, and the function extends the
    result. ``carry_out``: one more out (bool) follows the results; ``carry_in``: one more source (bool) follows the
    sources.
    """

    result: tuple[str, ...]
    sources: tuple[str, ...]
    function: Function
    carry_in: bool = False
    carry_out: bool = False


Table = dict[str, Operation]


def put(entries: Table, name: str, code: str, count: int, function: Function) -> None:
    """Add an operation whose ``count`` sources and result all have type ``code``, which ends its name."""
    entries[f"{name}.{code}"] = Operation((code,), (code,) * count, function)


@dataclass(frozen=True)
class Plain:
    """A ufunc as a table function."""

    ufunc: Callable[..., Any]

    def __call__(self, out: Array, *sources: Array) -> None:
        """Write the ufunc's result into ``out``."""
        self.ufunc(*sources, out=out)

    def into(self, out: Array, sources: Sequence[Any]) -> Callable[[], object]:
        """Return a closure that calls the ufunc. NumPy handles a positional ``out`` faster, but not for all ufuncs."""
        if self.ufunc in (np.minimum, np.maximum):
            return functools.partial(self.ufunc, *sources, out=out)
        return functools.partial(self.ufunc, *sources, out)


def in_halves(function: Function, dtype: Any, result: Any = None) -> Function:
    """Apply ``function`` (one result) to both 16-bit halves of packed 32-bit registers, viewed as ``dtype``.
    ``result``: the dtype of the result, if it is not ``dtype``."""
    written = result or dtype

    def packed(out: Array, *sources: Array) -> None:
        halves = [np.ascontiguousarray(np.broadcast_to(source, out.shape)).view(dtype) for source in sources]
        function(out.view(written), *halves)

    return packed
