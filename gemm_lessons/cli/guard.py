"""Run a command that executes a kernel in a child process, so that there is an answer even if the child crashes.

    return guarded(work, lost, bounds)    work() in the child; lost("timeout", words) here, if the child gave no answer

The child enforces its own limits (``bounds``); as a fallback, the parent kills a child that is far too late and reports
a crash (``engine.process.watched``). It exits with the child's exit code.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import replace

from gemm_lessons import cli
from gemm_lessons.course import CommandError
from gemm_lessons.engine.process import GIB, SLOW, Bounds, OutOfTime, affordable, bounds, signal_name, watch
from gemm_lessons.gemm import Shape
from gemm_lessons.running import EXIT_NOT_PASSED

SPARE_S = 30.0  # seconds beyond the child's own bounds, to load, compile and print
BYTES_PER_ELEMENT = 64  # bytes per element of A, B and C, for all copies that a run holds
MULTIPLY_ADDS_PER_S = 4e6  # throughput of a slow kernel on a slow machine
ENVIRONMENT = ("GEMM_LESSONS_TIME_LIMIT", "GEMM_LESSONS_MEMORY_LIMIT")


def bounds_for(seconds: float | None, gibibytes: float | None, shape: Shape | None = None) -> Bounds:
    """Return the limits of the options, else of the environment, else by ``shape``. Raises ``CommandError``."""
    seconds = _number("--time-limit", seconds, ENVIRONMENT[0])
    gibibytes = _number("--memory-limit", gibibytes, ENVIRONMENT[1])
    usual, work, bytes_ = Bounds(), 0.0, 0
    if shape is not None:
        work = shape.m * shape.n * shape.k / MULTIPLY_ADDS_PER_S
        bytes_ = BYTES_PER_ELEMENT * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    return Bounds(
        seconds or usual.seconds + work,
        int(gibibytes * GIB) if gibibytes else affordable(usual.memory_bytes + bytes_),
        "; --time-limit SECONDS and --memory-limit GIB allow more",
    )


def _number(option: str, given: float | None, variable: str) -> float | None:
    if given is None and (text := os.environ.get(variable, "").strip()):
        option = variable
        try:
            given = float(text)
        except ValueError:
            raise CommandError(f'{variable}="{text}" is not a number') from None
    if given is not None and not (math.isfinite(given) and given > 0):
        raise CommandError(f"{option}: {given:g} is not a limit; give a number above 0")
    return given


def guarded(work: Callable[[Callable[[int], None]], int], lost: Callable[[str, str], int], bounds: Bounds) -> int:
    """Run ``work`` in a child, or ``lost`` if the child gives no answer. ``work`` reports its exit code through its
    argument as soon as the code is known, before it prints."""
    if not cli.forking:  # a Python caller of ``app`` stays in one process
        return work(lambda code: None)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    ended = watch(work, SLOW * (bounds.seconds + bounds.grace) + SPARE_S)
    if ended.late:
        return lost("timeout", f"{bounds.too_long}{bounds.advice}")
    if ended.code >= 0:
        return ended.code
    if ended.known is not None:
        return ended.known
    why = ": most likely the machine has no memory left" if ended.killed else ""
    return lost("crash", f"the run was ended by {signal_name(-ended.code)}{why}")


def in_child(work: Callable[[], int], most: Bounds | None = None) -> int:
    """Run ``work`` as ``guarded`` does, for a command without a verdict: a lost child is reported as an error, and so
    is the end of its time or memory. Without ``most``, the limits are those of the environment."""
    limits = most or replace(bounds_for(None, None), advice=f"; {' and '.join(ENVIRONMENT)} allow more")

    def lost(kind: str, message: str) -> int:
        from gemm_lessons.report import make_console, show_error

        show_error(make_console(stderr=True), message)
        return EXIT_NOT_PASSED

    def limited(tell: Callable[[int], None]) -> int:
        try:
            with bounds.within(limits):
                return work()
        except (OutOfTime, MemoryError) as end:
            return lost("timeout", f"{end if isinstance(end, OutOfTime) else limits.too_much}{limits.advice}")

    return guarded(limited, lost, limits)
