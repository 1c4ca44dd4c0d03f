"""One launch of a foreign kernel on the simulator."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checks.foreign.inputs import Argument, Array, Pointer
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.records.launch import Argument as Passed
from gemm_lessons.engine.records.launch import Buffer, Grid, Scalar
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.simulator import Setting, Simulator


class TooSlow(Exception):
    """The launch exceeded its time limit."""


@dataclass(frozen=True)
class Outcome:
    """The simulator's record of a launch, and every buffer before and after it."""

    launched: Launched
    before: tuple[Array, ...]
    after: tuple[Array, ...]

    @property
    def changed(self) -> int:
        """Number of bytes that the launch changed."""
        pairs = zip(self.before, self.after, strict=True)
        return sum(int((b.view("u1") != a.view("u1")).sum()) for b, a in pairs)


def values(arguments: Sequence[Argument]) -> tuple[Array, ...]:
    """The data of every pointer: the n-th argument has seed n."""
    return tuple(a.values(n) for n, a in enumerate(arguments) if isinstance(a, Pointer))


def launch(compiled: Compiled, shape: Grid, arguments: Sequence[Argument], setting: Setting, seconds: int) -> Outcome:
    """Launch once. Raises ``TooSlow``, ``UnsupportedKernel`` and other errors of the simulator."""
    before = values(arguments)
    after = tuple(array.copy() for array in before)
    waiting = iter(after)
    passed: list[Passed] = []
    for number, argument in enumerate(arguments):
        if isinstance(argument, Pointer):
            passed.append(Buffer(f"argument {number}", next(waiting), output=True))
        else:
            passed.append(Scalar(f"argument {number}", argument.value))
    with time_limit(seconds):
        launched = Simulator(setting).launch(compiled, shape, passed)
    return Outcome(launched, before, after)


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise ``TooSlow`` in the code inside after so many seconds."""

    def ring(*_: Any) -> None:
        raise TooSlow(f"more than {seconds} s")

    former = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
