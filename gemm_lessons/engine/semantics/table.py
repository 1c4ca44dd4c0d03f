"""What PTX instructions compute: a table from full name (``mad.wide.s32``) to a NumPy function over all lanes.

The table covers every instruction that computes register values from register values. The machine implements memory,
control flow and communication between lanes. The table is assembled from one module per kind:

    integers.py  bits.py  comparisons.py  conversions.py  float8.py
    floating point: arithmetic.py  division.py  extremes.py

``floats.py`` and ``doubles.py`` implement correct rounding. Results that PTX leaves undefined are those of an H200.
"""

from __future__ import annotations

from functools import cache

from gemm_lessons.engine.semantics import (
    arithmetic,
    bits,
    comparisons,
    conversions,
    division,
    extremes,
    float8,
    integers,
)
from gemm_lessons.engine.semantics.floats import fix_double_rounding, float_state
from gemm_lessons.engine.semantics.operation import DTYPES, Operation, Table

__all__ = ["DTYPES", "Operation", "fix_double_rounding", "float_state", "lookup", "supported"]


@cache
def _table() -> Table:
    table: Table = {}
    for module in (integers, bits, comparisons, arithmetic, division, extremes, conversions, float8):
        table |= module.table()
    return table


@cache
def _sets() -> Table:
    return comparisons.sets()


@cache
def _pairs() -> Table:
    return comparisons.pairs()


@cache
def _scaled() -> Table:
    return arithmetic.scaled()


def lookup(opcode: str, modifiers: tuple[str, ...], results: int = 1) -> Operation | None:
    """Return the operation of ``opcode.modifiers``, or None if it is not supported.

    ``results`` is 2 for ``setp`` with two destinations ``p|q`` (packed comparisons always have two). Run functions
    under ``float_state()``.
    """
    name = ".".join((opcode, *modifiers))
    if opcode == "set" and results == 1:
        return _sets().get(name)
    return (_pairs() if results == 2 else _table()).get(name) or _scaled().get(name)


def supported() -> tuple[str, ...]:
    """Return the full names of all supported instructions, sorted. ``setp`` takes one or two destinations."""
    return tuple(sorted(_table().keys() | _sets().keys() | _pairs().keys()))
