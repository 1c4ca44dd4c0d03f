"""Turns unexpected errors of the simulator into ``UnsupportedKernel``, with the instruction that caused them.

Expected refusals raise ``UnsupportedKernel`` where they arise. This module handles the rest: it reads the instruction
off the traceback of the Python error. ``GEMM_LESSONS_DEBUG=1`` shows the Python error instead.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterator
from types import TracebackType

from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.sass.operands import Decoded

BREAKS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, RuntimeError, TypeError, ValueError,
    re.error, struct.error,
)  # fmt: skip


@contextlib.contextmanager
def as_unsupported(doing: str, of_the_caller: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn errors into ``UnsupportedKernel``; those of types ``of_the_caller`` only while an instruction executes."""
    try:
        yield
    except BREAKS as error:
        construct, line = _looked_at(error.__traceback__)
        if os.environ.get("GEMM_LESSONS_DEBUG") or (isinstance(error, of_the_caller) and not construct):
            raise
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise UnsupportedKernel(f"{construct or 'it'} is not understood where {doing} ({why})", line) from error


def _looked_at(trace: TracebackType | None) -> tuple[str, int | None]:
    """Return the instruction that the innermost frame refers to, and its line."""
    found: tuple[str, int | None] = "", None
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, Instruction):
                found = value.full_opcode, line_of(value)
            elif isinstance(value, Decoded):
                found = value.source.opcode, value.source.line
        trace = trace.tb_next
    return found
