"""NVTX ranges: every stage of a run is a named range in the domain ``gemm-lessons``, on both devices.

Without a listener (Nsight Systems, Nsight Compute, an injection library) a range costs nothing: not even ``nvtx`` is
loaded, which would cost every run 10 ms.

    with stage("check", "128x128x64", payload=flops):
        ...

The process that owns the GPU reopens the ranges of its parent (``current``, ``opened``), so that a kernel is
inside ``lesson`` and ``check`` there too, and a profiler's filter can name it.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Literal, NamedTuple

DOMAIN = "gemm-lessons"
# Ways to load a listener: NVTX loads the library that the first variable names (``nvtx3/nvtxDetail/nvtxInit.h``), or
# takes what a preloaded one defines.
LISTENER = ("NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES")
Stage = Literal["lesson", "compile", "check", "count", "prepare", "verify", "warm-up", "time", "estimate"]
Role = Literal["kernel", "previous", "reference", "cublas"]
# ARGB as numbers, since nvtx needs matplotlib for most colour names.
COLOURS: Mapping[Stage | Role, int] = {
    "lesson": 0xFF_4C_72_B0,
    "compile": 0xFF_DD_84_52,
    "check": 0xFF_55_A8_68,
    "count": 0xFF_81_72_B3,
    "time": 0xFF_C4_4E_52,
    "estimate": 0xFF_CC_B9_74,
    "kernel": 0xFF_D6_27_28,
    "reference": 0xFF_2C_A0_2C,
    "previous": 0xFF_17_BE_CF,
    "cublas": 0xFF_76_B9_00,
    "warm-up": 0xFF_BB_BB_BB,
    "prepare": 0xFF_C7_C7_C7,
    "verify": 0xFF_8C_8C_8C,
}


class Range(NamedTuple):
    """One range: its name, its colour (ARGB) and a number that goes with it."""

    name: str
    colour: int
    payload: int | None = None


Tell = Callable[[str], None]  # receives what begins: "compile solution.cu", "check 96x64x80", ...

_current: ContextVar[tuple[Range, ...]] = ContextVar("ranges", default=())
_progress: ContextVar[Tell | None] = ContextVar("progress", default=None)


@contextlib.contextmanager
def told_to(tell: Tell | None) -> Iterator[None]:
    """Direct ``announce`` to ``tell`` inside this block."""
    token = _progress.set(tell)
    try:
        yield
    finally:
        _progress.reset(token)


def announce(what: str) -> None:
    """Announce what begins, to show progress."""
    tell = _progress.get()
    if tell is not None:
        tell(what)


def stage(stage: Stage, what: str = "", payload: int | None = None) -> contextlib.AbstractContextManager[None]:
    """Return a range named ``stage`` or ``stage what``, nested in the enclosing range.

    ``payload``: the lesson's number, the bytes of source to compile, or the floating-point operations of the shape.
    """
    return opened(Range(f"{stage} {what}" if what else stage, COLOURS[stage], payload))


def turn(who: Role, label: str, payload: int | None = None) -> contextlib.AbstractContextManager[None]:
    """Return a range for one kernel's turn, named as in the table (``your kernel``), in the colour of its role."""
    return opened(Range(label, COLOURS[who], payload))


@contextlib.contextmanager
def opened(it: Range) -> Iterator[None]:
    """Open a range; close it at the end."""
    token = _current.set((*_current.get(), it))
    try:
        with _annotated(it) if has_listener() else contextlib.nullcontext():
            yield
    finally:
        _current.reset(token)


@functools.cache
def has_listener() -> bool:
    """Tell whether a profiler listens, or may listen."""
    return any(os.environ.get(name) for name in LISTENER)


def _annotated(it: Range) -> contextlib.AbstractContextManager[object]:
    import nvtx  # slow to import

    annotation: contextlib.AbstractContextManager[object] = nvtx.annotate(
        it.name, color=it.colour, domain=DOMAIN, payload=it.payload
    )
    return annotation


def current() -> tuple[Range, ...]:
    """Return the open ranges of this process, outermost first."""
    return _current.get()
