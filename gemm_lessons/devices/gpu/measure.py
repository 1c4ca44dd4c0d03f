"""Timing on the GPU, inside the process that owns the context: several kernels on one problem, interleaved.

    fresh inputs -> every kernel's answer verified against cuBLAS -> warm-up until the clock is steady -> timed rounds

Every timed turn has these steps: refresh the arena (a secret row of A, a poisoned C, a flushed L2), hold the
queue, event, kernels, event, release the queue; then save that row of C, to be judged at the end. The queue is held
until the host has queued the second event: the time between the events is then the kernels' alone, not the host's.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from gemm_lessons.devices.gpu import ranges
from gemm_lessons.devices.gpu.arena import MOST, Arena, floats
from gemm_lessons.devices.gpu.baseline import Cublas
from gemm_lessons.devices.gpu.functions import launcher
from gemm_lessons.devices.gpu.health import Monitor
from gemm_lessons.devices.gpu.hold import Hold
from gemm_lessons.devices.gpu.memory import DeviceMemory
from gemm_lessons.devices.gpu.timing import is_steady, repeats, schedule
from gemm_lessons.engine.process import Parent
from gemm_lessons.engine.records import picked
from gemm_lessons.gemm import DEFAULTS, EPILOGUE, Value, roundings

Array = np.ndarray[Any, Any]

SHORTEST_WARM_UP_S = 0.15  # an H200's clock rises from 345 to 1980 MHz in well below that
BURST_S = 0.005  # seconds of launches between two clock samples
CHUNK = 1 << 18  # elements to compare at a time: they stay in the processor's cache
SILENCE_S = 0.5  # report progress at least this often between launches
FEWEST = 3  # repeats
SAMPLE_EVERY = 7  # rounds between two clock samples
# Where a kernel's code lies decides up to 0.9 us: instructions are fetched anew after the flush. So short kernels are
# launched from copies of their code in turn, and a time is the mean of a launch of each.
PLACES = 8
SHORT_US = 500.0  # of a first launch, with the host's work
HOPELESS = 3  # turns in a row in which the hold gave up: something runs one kernel at a time, as a profiler does


@dataclass
class Contestant:
    """One kernel in the measurement: how to launch it, and its results."""

    label: str
    role: ranges.Role
    places: Sequence[Callable[[], None]]  # launch copies of the same code, or one that cannot be copied
    short: bool = False
    times: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)  # in which each time was taken
    audits: list[tuple[int, int]] = field(default_factory=list)  # (slot of the audit buffer, row it must equal)
    wrong: int = 0
    worst: float = -1.0  # the largest error in units of its tolerance
    max_error: float = 0.0  # of that element
    tolerance: float = 0.0
    overran: str = ""  # the buffer whose guard zone was written

    def start(self) -> None:
        """Queue one launch."""
        self.places[len(self.times) % len(self.places) if self.short else 0]()

    def result(self) -> dict[str, Any]:
        """Return the result for the parent."""
        each = PLACES if self.short and len(self.times) >= FEWEST * PLACES else 1
        groups = [self.times[at : at + each] for at in range(0, len(self.times) - each + 1, each)]
        about = picked(self, "label role wrong max_error tolerance overran")
        return {
            "times_us": [*map(statistics.fmean, groups)],
            "rounds": self.rounds[: len(groups) * each : each],
            **about,
        }


class Judge:
    """Compares answers with cuBLAS's. Both may be off by the problem's tolerance, so twice that is allowed.

    The rest of the formula is applied here to cuBLAS's product; ``expected`` are answers of kernels, ``products`` those
    of cuBLAS.
    """

    def __init__(self, arena: Arena, product: Array) -> None:
        kind = self._kind = arena.target.element
        self.products = floats(product, arena.multiplied.target.element)
        self.expected, epilogue = _finished(arena, self.products)
        unit = arena.accumulate.roundoff
        if arena.left.element.roundoff > unit:  # tensor cores truncate
            unit *= 2
        unit = unit * 2 * (roundings(arena.depth) + EPILOGUE) + arena.lost
        self._final = (2 + epilogue) * kind.roundoff if kind.roundoff > arena.accumulate.roundoff else 0.0
        self._rest = unit * float(np.abs(self.expected - self.products).max()) if epilogue else 0.0
        # By Cauchy-Schwarz, |A||B| is at most the product of the norms of row and column.
        left, right = arena.factors()
        self._rows = unit * self._norms(arena, left, "bij,bij->bi").reshape(-1)
        self._cols = self._norms(arena, right, "bij,bij->bj")
        self._each = arena.target.rows

    @staticmethod
    def _norms(arena: Arena, values: Array, which: str) -> Array:
        """Return the norms of a factor's rows or columns: (batch, rows) or (batch, columns)."""
        values = values.reshape(-1, *values.shape[-2:])
        found: Array = np.sqrt(np.einsum(which, values, values))
        return np.broadcast_to(found, (arena.target.batch, found.shape[1]))

    def compare(self, entrant: Contestant, stored: Array, rows: Sequence[int] | slice) -> None:
        """Judge rows of an answer against the same rows of cuBLAS's answer; add to the entrant's counts.

        There are millions of elements per launch. Computing the errors in units of their tolerances takes four passes
        and no extra memory.
        """
        got = floats(stored, self._kind)
        expected = (self.products if entrant.role == "cublas" else self.expected)[rows]
        with np.errstate(all="ignore"):  # a wrong kernel may leave any bits
            error = np.abs(got - expected)
            if self._final or self._rest or not self._rows.any():  # integers are exact
                share = np.where(error == 0, 0, error / self._tolerance(rows, expected))
            else:
                share = error
                share /= self._rows[rows, None]
                share /= self._columns(rows)
        at = int(share.argmax())  # NaN counts as the largest
        row, col = divmod(at, share.shape[1])
        worst = float(share[row, col])
        if not worst <= 1:
            entrant.wrong += int(np.count_nonzero(~(share <= 1)))
        if not worst <= entrant.worst:
            entrant.worst = np.inf if np.isnan(worst) else worst
            entrant.tolerance = float(self._tolerance(rows, expected)[row, col])
            entrant.max_error = float(np.abs(np.float64(got[row, col]) - np.float64(expected[row, col])))

    def _columns(self, rows: Sequence[int] | slice) -> Array:
        if len(self._cols) == 1:
            return np.asarray(self._cols[0])
        return np.asarray(self._cols[np.arange(len(self._rows))[rows] // self._each])

    def _tolerance(self, rows: Sequence[int] | slice, expected: Array) -> Array:
        tolerance = self._rows[rows, None] * self._columns(rows)
        return np.asarray(tolerance + self._rest + self._final * (np.abs(expected) + tolerance))


def _finished(arena: Arena, product: Array) -> tuple[Array, bool]:
    """Return the right answer of kernels, given cuBLAS's product, and whether it differs from the product."""
    if set(arena.formula.names) <= {arena.left.name, arena.right.name, arena.target.name, "alpha", "beta"}:
        return product, False
    names = {name: Value.exact(np.array(value)) for name, value in DEFAULTS.items()} | arena.values()
    names[arena.target.name] = Value.exact(np.array(0.0))
    stacked = product.reshape(arena.target.batch, -1, arena.cols)
    return arena.formula.value(names, Value.exact(stacked)).value.reshape(product.shape), True


class Stopwatch:
    """Two CUDA events."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._first, self._second = runtime.eventCreate(), runtime.eventCreate()

    def time_us(self, start: Callable[[], None]) -> float:
        """Return microseconds between an event before and one after ``start``; wait for both."""
        self._queue(start)
        return self._elapsed_us()

    def time_held_us(self, start: Callable[[], None], hold: Hold) -> float:
        """Return the same for a GPU that begins after the host has queued all; ``hold.lasted`` tells whether it did."""
        hold.begin()
        try:
            self._queue(start)
        finally:
            hold.release()
        return self._elapsed_us()

    def _queue(self, start: Callable[[], None]) -> None:
        self._runtime.eventRecord(self._first, 0)
        start()
        self._runtime.eventRecord(self._second, 0)

    def _elapsed_us(self) -> float:
        self._runtime.eventSynchronize(self._second)
        return float(self._runtime.eventElapsedTime(self._first, self._second)) * 1e3


class Setup:
    """What kernels are measured on: the problem on the GPU, and cuBLAS with its answer. Close it to free memory."""

    def __init__(self, runtime: Any, problem: dict[str, Any]) -> None:
        self.problem = problem
        with contextlib.ExitStack() as stack:
            memory = stack.enter_context(DeviceMemory(runtime))
            self.arena = Arena(memory, problem)
            self.cublas = Cublas(self.arena)
            with ranges.stage("prepare", str(self.arena.shape)):
                self.arena.poison()
                self.cublas.start()
                self.judge = Judge(self.arena, self.arena.reference())
            self._stack = stack.pop_all()

    def __enter__(self) -> Setup:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def measure(
    parent: Parent, runtime: Any, header: dict[str, Any], cubins: Sequence[bytes], setup: Setup, monitor: Monitor
) -> dict[str, Any]:
    """Verify and time the kernels of ``header["entrants"]`` and cuBLAS. The first cubin is that of ``Hold``."""
    codes = iter(cubins)
    with setup, Hold(runtime, next(codes)) as hold:
        arena, cublas = setup.arena, setup.cublas
        entrants = []
        for entry in header["entrants"]:
            own = arena.scratch(entry["scratch"])
            steps = [_copies(next(codes), step, arena.arguments(step["arguments"], own)) for step in entry["steps"]]
            places = [_all(starts) for starts in zip(*steps, strict=True)]
            entrants.append(Contestant(entry["label"], entry["role"], places))
        rivals = [Contestant("cuBLAS", "cublas", [cublas.start])] if arena.as_stored else []
        session = _Session(parent, runtime, setup, monitor, hold, [*entrants, *rivals])
        session.verify()
        session.warm_up(header["warm_up"])
        session.run(header["seconds"])
        return {
            "entrants": [entrant.result() for entrant in entrants],
            "rival": [rival.result() for rival in rivals],
            "health": asdict(monitor.read()),
            "driver": monitor.driver,
            "cublas": cublas.version,
            "warm_up_s": session.warmed_s,
            "held": session.held,
        }


def _copies(cubin: bytes, step: Mapping[str, Any], arguments: Sequence[Any]) -> list[Callable[[], None]]:
    return [launcher(cubin, step, arguments) for _ in range(PLACES)]


def _all(starts: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def start() -> None:
        for one in starts:
            one()

    return start


class _Session:
    """The steps of ``measure``, in order: verify, warm up, run."""

    def __init__(
        self, parent: Parent, runtime: Any, setup: Setup, monitor: Monitor, hold: Hold, entrants: Sequence[Contestant]
    ) -> None:
        self.parent, self.runtime, self.monitor, self.hold = parent, runtime, monitor, hold
        self.arena, self.judge = setup.arena, setup.judge
        self.entrants = entrants
        self.watch = Stopwatch(runtime)
        self.first_us: list[float] = []
        self.warmed_s = 0.0
        self.held = True
        self._said = ""
        self.flop = setup.arena.operations

    def verify(self) -> None:
        """Launch each kernel once on poisoned C and compare with cuBLAS's answer."""
        arena = self.arena
        step = max(CHUNK // arena.cols, 1)
        for entrant in self.entrants:
            self._say(entrant)
            self.first_us.append(self._once(entrant))
            answer = arena.answer()
            for first in range(0, arena.rows, step):
                rows = slice(first, first + step)
                self.judge.compare(entrant, answer[rows], rows)
            entrant.overran = entrant.overran or arena.overran()

    def _once(self, entrant: Contestant) -> float:
        self.arena.poison()
        with ranges.stage("verify", entrant.label, payload=self.flop):
            return self.watch.time_us(entrant.start)

    def warm_up(self, longest: float) -> None:
        """Launch the last kernel in bursts until their times agree: the clock of an idle GPU takes a while to rise."""
        started = time.monotonic()
        bursts: list[float] = []
        count = max(int(BURST_S * 1e6 / max(self.first_us[-1], 1.0)), 1)

        def burst() -> None:
            for _ in range(count):
                self.entrants[-1].start()

        with ranges.stage("warm-up"):
            for entrant, first_us in zip(self.entrants, self.first_us, strict=True):
                entrant.short = first_us < SHORT_US
                for place in entrant.places if entrant.short else ():
                    place()  # loads that copy, which must not happen while the queue is held
            while True:
                bursts.append(self.watch.time_us(burst))
                self._still_alive()
                self.warmed_s = time.monotonic() - started
                if self.warmed_s >= longest or (self.warmed_s >= SHORTEST_WARM_UP_S and is_steady(bursts)):
                    return

    def run(self, seconds: float) -> None:
        """Run timed rounds; afterwards judge the saved rows and inspect the guard zones."""
        arena = self.arena
        counts = repeats(self.first_us, seconds, FEWEST, MOST)
        size = arena.cols * arena.target.element.size
        audit = arena.memory.allocate(sum(counts) * size)
        self.monitor.restart()
        slot = 0
        for number, turn in enumerate(schedule(counts)):
            for index in turn:
                entrant = self.entrants[index]
                self._say(entrant)
                row, other, time_us = self._turn(entrant)
                entrant.times.append(time_us)
                entrant.rounds.append(number)
                arena.set_aside(row, audit + slot * size)
                arena.restore(row)
                entrant.audits.append((slot, other))
                slot += 1
            if number % SAMPLE_EVERY == 0:
                self._sample()
        self.runtime.deviceSynchronize()
        self._audit(audit, slot)

    def _turn(self, entrant: Contestant) -> tuple[int, int, float]:
        """Time one launch. Return the row of A that was replaced, the row that its answer now equals, and the time.

        A turn in which the GPU did not wait for the host is thrown away and repeated.
        """
        for _ in range(HOPELESS):
            row, other = self.arena.refresh()
            with ranges.turn(entrant.role, entrant.label, payload=self.flop):
                if not self.held:
                    return row, other, self.watch.time_us(entrant.start)
                time_us = self.watch.time_held_us(entrant.start, self.hold)
            if self.hold.lasted:
                return row, other, time_us
            self.arena.restore(row)
        self.held = False
        return self._turn(entrant)

    def _sample(self) -> None:
        """Sample the clock while the last kernel keeps the GPU busy."""
        self.entrants[-1].start()
        self.monitor.sample()

    def _audit(self, audit: int, slots: int) -> None:
        arena = self.arena
        kept = arena.memory.read(audit, np.empty((slots, arena.cols), arena.target.element.storage))
        for entrant in self.entrants:
            if entrant.audits:
                which = np.array(entrant.audits)
                self.judge.compare(entrant, kept[which[:, 0]], which[:, 1].tolist())
        overran = arena.overran()
        if overran and not any(entrant.overran for entrant in self.entrants):
            self.entrants[0].overran = overran  # the kernel under test is the first suspect

    def _say(self, entrant: Contestant) -> None:
        """Name the next kernel, so that the parent knows which kernel never ended."""
        if entrant.label != self._said or self.parent.silence > SILENCE_S:
            self._said = entrant.label
            self.parent.send({"progress": entrant.label})

    def _still_alive(self) -> None:
        if self.parent.silence > SILENCE_S:
            self.parent.send({"progress": self.entrants[-1].label})
