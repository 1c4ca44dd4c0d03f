"""Timing on the GPU, inside the process that owns the context: several kernels on one problem, interleaved.

    fresh inputs -> every kernel's answer verified against cuBLAS -> warm-up until the clock is steady -> timed rounds

Every timed launch goes like this: one secret row of A is replaced by another (so no earlier answer is right), C is
poisoned, L2 is flushed by overwriting a buffer larger than it, event, kernel, event; then that row of C is set aside
and judged at the end. The flush also keeps the GPU busy while the host queues event, kernel, event: the time between
the events is then the kernel's alone, not the host's.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from gemm_lessons import ranges
from gemm_lessons.child import Parent
from gemm_lessons.course.lesson import ElementType, KernelSpec, Shape
from gemm_lessons.course.problem import GUARD_BYTE, GUARD_BYTES, PROBABLE, ROUNDOFF, STORAGE, decode, draw
from gemm_lessons.gpu.health import Monitor
from gemm_lessons.gpu.memory import DeviceMemory
from gemm_lessons.gpu.timing import is_steady, repeats, schedule

Array = np.ndarray[Any, Any]

BLOCK = 1_000_003  # random numbers drawn; larger matrices repeat them (a prime, so that no two rows are alike)
SHORTEST_WARM_UP_S = 0.15  # an H200's clock rises from 345 to 1980 MHz in well below that
BURST_S = 0.005  # of launches between two looks at the clock
CHUNK = 1 << 18  # elements to compare at a time: they stay in the processor's cache
SILENCE_S = 0.5  # report progress at least this often between launches
FEWEST, MOST = 3, 200  # repeats
SAMPLE_EVERY = 7  # rounds between two looks at the clock

# Values of cudaDataType_t and cublasComputeType_t (library_types.h, cublas_api.h). The fp32 compute type is the one
# that uses no TF32 unless the handle's math mode asks for it, and ours does not.
DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14}
COMPUTE_TYPES = {"float16": 64, "float32": 68, "float64": 70, "int32": 72}
DEFAULT_MATH, NO_TRANSPOSE, DEFAULT_ALGORITHM = 0, 0, -1


@dataclass
class Contestant:
    """One kernel that takes part: how to launch it, what came of it."""

    label: str
    role: ranges.Who
    start: Callable[[], None]
    times: list[float] = field(default_factory=list)
    audits: list[tuple[int, int]] = field(default_factory=list)  # (slot of the audit buffer, row it must equal)
    wrong: int = 0
    worst: float = -1.0  # the largest error in units of its tolerance
    max_error: float = 0.0  # of that element
    tolerance: float = 0.0
    overran: str = ""  # the buffer whose guard zone was written

    def result(self) -> dict[str, Any]:
        """For the parent."""
        return {
            "label": self.label,
            "role": self.role,
            "times_us": self.times,
            "wrong": self.wrong,
            "max_error": self.max_error,
            "tolerance": self.tolerance,
            "overran": self.overran,
        }


class Arena:
    """The problem on the GPU: A with a pristine copy, B, C, each between guard zones; scratch for flush and audit."""

    def __init__(self, memory: DeviceMemory, kernel: KernelSpec, shape: Shape, seed: int, flush_bytes: int) -> None:
        self.kernel, self.shape, self.memory = kernel, shape, memory
        self.random = np.random.default_rng([seed, shape.m, shape.n, shape.k])
        self.a = self._draw(shape.m, shape.k, kernel.a)
        self.b = self._draw(shape.k, shape.n, kernel.b)
        self.c_type = np.dtype(STORAGE[kernel.c])
        self.c_bytes = shape.m * shape.n * self.c_type.itemsize
        self.row_a = shape.k * self.a.dtype.itemsize
        self.row_c = shape.n * self.c_type.itemsize
        self.flush_bytes = flush_bytes
        memory.expect(
            [2 * self.a.nbytes, self.b.nbytes, self.c_bytes, self.flush_bytes, 4 * MOST * self.row_c],
            f"A, B and C of {shape} with what timing needs beside them",
        )
        self.buffers = {"A": self._guarded(self.a.nbytes), "B": self._guarded(self.b.nbytes)}
        self.buffers["C"] = self._guarded(self.c_bytes)
        memory.write(self.buffers["A"], self.a)
        memory.write(self.buffers["B"], self.b)
        self.buffers["bias"] = self._guarded(self.row_c)
        memory.fill(self.buffers["bias"], 0, self.row_c)
        self.pristine = memory.allocate(self.a.nbytes)
        memory.copy(self.pristine, self.buffers["A"], self.a.nbytes)
        self._host = np.empty((shape.m, shape.n), self.c_type)
        self.scratch = memory.allocate(self.flush_bytes)
        # beta C is part of some kernels; with beta = 0, C must at least not be a NaN.
        self.poison = 0x00 if "beta" in kernel.parameters else 0xFF

    def _draw(self, rows: int, cols: int, kind: ElementType) -> Array:
        return np.resize(draw(self.random, (min(rows * cols, BLOCK),), kind), (rows, cols))

    def _guarded(self, size: int) -> int:
        pointer = self.memory.allocate(size + 2 * GUARD_BYTES)
        self.memory.fill(pointer, GUARD_BYTE, size + 2 * GUARD_BYTES)
        return pointer + GUARD_BYTES

    def overran(self) -> str:
        """The name of a buffer whose guard zone was written, and repair the zone; or an empty string."""
        sizes = {"A": self.a.nbytes, "B": self.b.nbytes, "C": self.c_bytes}
        for name, size in sizes.items():
            for zone in (self.buffers[name] - GUARD_BYTES, self.buffers[name] + size):
                if np.any(self.memory.read(zone, np.empty(GUARD_BYTES, np.uint8)) != GUARD_BYTE):
                    self.memory.fill(zone, GUARD_BYTE, GUARD_BYTES)
                    return name
        return ""

    def arguments(self) -> list[Array]:
        """The kernel's arguments in order, by value; rows follow each other without gaps, alpha 1, beta 0, bias 0."""
        from gemm_lessons.gpu.functions import address, by_value

        m, n, k = self.shape.m, self.shape.n, self.shape.k
        sizes = {"M": m, "N": n, "K": k, "lda": k, "ldb": n, "ldc": n}
        raw = {name: np.int32(size).tobytes() for name, size in sizes.items()}
        raw |= {name: address(pointer) for name, pointer in self.buffers.items()}
        scalar = STORAGE[self.kernel.accumulate]
        raw |= {"alpha": scalar(1).tobytes(), "beta": scalar(0).tobytes()}
        return [by_value(raw[name]) for name in self.kernel.parameters]

    def poison_c(self) -> None:
        """Leave nothing in C that could be taken for an answer."""
        self.memory.fill(self.buffers["C"], self.poison, self.c_bytes)

    def refresh(self) -> tuple[int, int]:
        """Replace a secret row of A by another one, poison C, flush L2: (the row, the row that its C now equals)."""
        row, other = (int(number) for number in self.random.integers(self.shape.m, size=2))
        self.memory.copy(self.buffers["A"] + row * self.row_a, self.pristine + other * self.row_a, self.row_a)
        self.poison_c()
        self.memory.fill(self.scratch, 0, self.flush_bytes)
        return row, other

    def restore(self, row: int) -> None:
        """Put the pristine row of A back."""
        self.memory.copy(self.buffers["A"] + row * self.row_a, self.pristine + row * self.row_a, self.row_a)

    def answer(self) -> Array:
        """C, (M, N) as stored; the same host memory each time."""
        return self.memory.read(self.buffers["C"], self._host)


@lru_cache(maxsize=1)
def open_cublas() -> tuple[Any, int]:
    """CuPy's binding of cuBLAS and a handle; takes some 0.2 s the first time. Raises ``ImportError``."""
    from cupy.cuda import cublas

    handle = cublas.create()
    cublas.setMathMode(handle, DEFAULT_MATH)
    return cublas, handle


class Cublas:
    """The library's product in the same types: C^T = B^T A^T, since it counts columns first and we count rows."""

    def __init__(self, arena: Arena) -> None:
        self._api, self._handle = open_cublas()
        self.version = int(self._api.getVersion(self._handle))
        kernel, shape, at = arena.kernel, arena.shape, arena.buffers
        types = {name: DATA_TYPES[kind] for name, kind in (("A", kernel.a), ("B", kernel.b), ("C", kernel.c))}
        scalar = np.dtype(STORAGE[kernel.accumulate])
        self._one, self._zero = np.ones(1, scalar), np.zeros(1, scalar)
        self._arguments = (
            NO_TRANSPOSE, NO_TRANSPOSE, shape.n, shape.m, shape.k, self._one.ctypes.data,
            at["B"], types["B"], shape.n, at["A"], types["A"], shape.k, self._zero.ctypes.data,
            at["C"], types["C"], shape.n, COMPUTE_TYPES[kernel.accumulate], DEFAULT_ALGORITHM,
        )  # fmt: skip

    def start(self) -> None:
        """Queue one product."""
        self._api.gemmEx(self._handle, *self._arguments)


class Judge:
    """Compares answers with cuBLAS's. Both may be off by the problem's tolerance, so twice that is allowed."""

    def __init__(self, arena: Arena, expected: Array) -> None:
        kernel, k = arena.kernel, arena.shape.k
        self._kind = kernel.c
        self.expected = _values(expected, kernel.c)
        unit = ROUNDOFF[kernel.accumulate]
        if ROUNDOFF[kernel.a] > unit:  # tensor cores truncate
            unit *= 2
        unit *= 2 * (min(k, PROBABLE * k**0.5) + 4)
        self._final = 2 * ROUNDOFF[kernel.c] if ROUNDOFF[kernel.c] > ROUNDOFF[kernel.accumulate] else 0.0
        # |A||B| is at most the product of the norms of row and column, by Cauchy and Schwarz.
        a, b = _values(arena.a, kernel.a), _values(arena.b, kernel.b)
        self._rows = unit * np.sqrt(np.einsum("ij,ij->i", a, a))
        self._cols = np.sqrt(np.einsum("ij,ij->j", b, b))

    def compare(self, entrant: Contestant, stored: Array, rows: Sequence[int] | slice) -> None:
        """Judge rows of an answer against those rows of cuBLAS's; add to the entrant's account.

        Millions of elements per launch: the errors in units of their tolerances take four passes and no more memory.
        """
        got, expected = _values(stored, self._kind), self.expected[rows]
        with np.errstate(all="ignore"):  # whatever a wrong kernel leaves
            error = np.abs(got - expected)
            if self._final or not self._rows.any():  # rounding to C's type, or integers, which are exact
                share = np.where(error == 0, 0, error / self._tolerance(rows, expected))
            else:
                share = error
                share /= self._rows[rows, None]
                share /= self._cols
        at = int(share.argmax())  # NaN counts as the largest
        row, col = divmod(at, share.shape[1])
        worst = float(share[row, col])
        if not worst <= 1:
            entrant.wrong += int(np.count_nonzero(~(share <= 1)))
        if not worst <= entrant.worst:
            entrant.worst = np.inf if np.isnan(worst) else worst
            entrant.tolerance = float(self._tolerance(rows, expected)[row, col])
            entrant.max_error = float(np.abs(np.float64(got[row, col]) - np.float64(expected[row, col])))

    def _tolerance(self, rows: Sequence[int] | slice, expected: Array) -> Array:
        tolerance = self._rows[rows, None] * self._cols
        return np.asarray(tolerance + self._final * (np.abs(expected) + tolerance))


def _values(stored: Array, kind: ElementType) -> Array:
    """The numbers of an array as floats, without a copy where it holds such already."""
    return stored if stored.dtype in (np.float32, np.float64) else decode(stored, kind)


class Stopwatch:
    """Two CUDA events."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._first, self._second = runtime.eventCreate(), runtime.eventCreate()

    def time_us(self, start: Callable[[], None]) -> float:
        """Microseconds between an event before and one after ``start``; waits for both."""
        self._runtime.eventRecord(self._first, 0)
        start()
        self._runtime.eventRecord(self._second, 0)
        self._runtime.eventSynchronize(self._second)
        return float(self._runtime.eventElapsedTime(self._first, self._second)) * 1e3


class Ground:
    """What kernels are measured on: the problem on the GPU, and cuBLAS with its answer. Close it to free the memory."""

    def __init__(self, runtime: Any, problem: dict[str, Any]) -> None:
        self.problem = problem
        with contextlib.ExitStack() as stack:
            memory = stack.enter_context(DeviceMemory(runtime))
            kernel, shape = KernelSpec(**problem["kernel"]), Shape(*problem["shape"])
            self.arena = Arena(memory, kernel, shape, problem["seed"], problem["flush"])
            self.cublas = Cublas(self.arena)
            with ranges.stage("prepare", str(shape)):
                self.arena.poison_c()
                self.cublas.start()
                self.judge = Judge(self.arena, self.arena.answer().copy())
            self._stack = stack.pop_all()

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def measure(
    parent: Parent, runtime: Any, header: dict[str, Any], cubins: Sequence[bytes], ground: Ground, monitor: Monitor
) -> dict[str, Any]:
    """Verify and time the kernels of ``header["entrants"]`` (their cubins are the blobs) and cuBLAS."""
    from gemm_lessons.gpu.functions import load

    with ground:
        arena, cublas = ground.arena, ground.cublas
        entrants = []
        for entry, cubin in zip(header["entrants"], cubins, strict=True):
            function = load(cubin, entry["entry"], entry["dynamic_shared"])
            start = _launcher(function, entry, arena.arguments())
            entrants.append(Contestant(entry["label"], entry["role"], start))
        baseline = Contestant("cuBLAS", "cublas", cublas.start)
        session = _Session(parent, runtime, ground, monitor, [*entrants, baseline])
        session.verify()
        session.warm_up(baseline, header["warm_up"])
        session.run(header["seconds"])
        return {
            "entrants": [entrant.result() for entrant in (*entrants, baseline)],
            "health": asdict(monitor.read()),
            "driver": monitor.driver,
            "cublas": cublas.version,
            "warm_up_s": session.warmed_s,
        }


def _launcher(function: Any, entry: dict[str, Any], arguments: list[Array]) -> Callable[[], None]:
    grid, block, shared = tuple(entry["grid"]), tuple(entry["block"]), entry["dynamic_shared"]
    return lambda: function(grid, block, arguments, shared_mem=shared)


class _Session:
    """The steps of ``measure``, in order: verify, warm up, run."""

    def __init__(
        self, parent: Parent, runtime: Any, ground: Ground, monitor: Monitor, entrants: Sequence[Contestant]
    ) -> None:
        self.parent, self.runtime, self.monitor = parent, runtime, monitor
        self.arena, self.judge = ground.arena, ground.judge
        self.entrants = entrants
        self.watch = Stopwatch(runtime)
        self.first_us: list[float] = []
        self.warmed_s = 0.0
        self._said = ""
        shape = ground.arena.shape
        self.flop = 2 * shape.m * shape.n * shape.k

    def verify(self) -> None:
        """One launch of each on poisoned C, compared with cuBLAS's answer."""
        arena = self.arena
        step = max(CHUNK // arena.shape.n, 1)
        for entrant in self.entrants:
            self._say(entrant)
            self.first_us.append(self._once(entrant))
            answer = arena.answer()
            for first in range(0, arena.shape.m, step):
                rows = slice(first, first + step)
                self.judge.compare(entrant, answer[rows], rows)
            entrant.overran = entrant.overran or arena.overran()

    def _once(self, entrant: Contestant) -> float:
        self.arena.poison_c()
        with ranges.stage("verify", entrant.label, payload=self.flop):
            return self.watch.time_us(entrant.start)

    def warm_up(self, baseline: Contestant, longest: float) -> None:
        """Launch cuBLAS in bursts until their times agree: the clock of an idle GPU takes a while to rise."""
        started = time.monotonic()
        bursts: list[float] = []
        count = max(int(BURST_S * 1e6 / max(self.first_us[-1], 1.0)), 1)

        def burst() -> None:
            for _ in range(count):
                baseline.start()

        with ranges.stage("warm-up"):
            while True:
                bursts.append(self.watch.time_us(burst))
                self._still_alive()
                self.warmed_s = time.monotonic() - started
                if self.warmed_s >= longest or (self.warmed_s >= SHORTEST_WARM_UP_S and is_steady(bursts)):
                    return

    def run(self, seconds: float) -> None:
        """Timed rounds; afterwards the rows set aside are judged and the guard zones looked at."""
        arena = self.arena
        counts = repeats(self.first_us, seconds, FEWEST, MOST)
        audit = arena.memory.allocate(sum(counts) * arena.row_c)
        self.monitor.restart()
        slot = 0
        for number, turn in enumerate(schedule(counts)):
            for index in turn:
                entrant = self.entrants[index]
                self._say(entrant)
                row, other = arena.refresh()
                with ranges.turn(entrant.role, entrant.label, payload=self.flop):
                    entrant.times.append(self.watch.time_us(entrant.start))
                arena.memory.copy(audit + slot * arena.row_c, arena.buffers["C"] + row * arena.row_c, arena.row_c)
                arena.restore(row)
                entrant.audits.append((slot, other))
                slot += 1
            if number % SAMPLE_EVERY == 0:
                self._sample()
        self.runtime.deviceSynchronize()
        self._audit(audit, slot)

    def _sample(self) -> None:
        """Look at the clock while cuBLAS, which is timed with everything else, keeps the GPU busy."""
        self.entrants[-1].start()
        self.monitor.sample()

    def _audit(self, audit: int, slots: int) -> None:
        arena = self.arena
        kept = arena.memory.read(audit, np.empty((slots, arena.shape.n), arena.c_type))
        for entrant in self.entrants:
            if entrant.audits:
                which = np.array(entrant.audits)
                self.judge.compare(entrant, kept[which[:, 0]], which[:, 1].tolist())
        overran = arena.overran()
        if overran and not any(entrant.overran for entrant in self.entrants):
            self.entrants[0].overran = overran  # the kernel under test is the first suspect

    def _say(self, entrant: Contestant) -> None:
        """Name the kernel that runs next: if it never ends, the parent knows which one it was."""
        if entrant.label != self._said or self.parent.silence > SILENCE_S:
            self._said = entrant.label
            self.parent.send({"progress": entrant.label})

    def _still_alive(self) -> None:
        if self.parent.silence > SILENCE_S:
            self.parent.send({"progress": "cuBLAS"})
