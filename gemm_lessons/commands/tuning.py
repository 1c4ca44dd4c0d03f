"""Find the fastest tile sizes. Candidates are compiled, checked, counted and estimated, in several processes. The best
by estimate are measured on a GPU beside cuBLAS.

    [tune] of lesson.toml --> candidates --compile--> registers, occupancy --run--> right? --> estimate --> time

Each result is appended to a CSV file as soon as it is computed, and results in the file are not computed again.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, field, fields, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemm_lessons.commands.bench import TellSteps, fingerprint
from gemm_lessons.commands.points import append_lines, read_lines
from gemm_lessons.course import CommandError, Course, Lesson, UnfitTile, read_source, retiled
from gemm_lessons.devices import BuildTarget, Device
from gemm_lessons.engine import GpuSpec, KitError, UnsupportedKernel
from gemm_lessons.engine.hardware import occupancy_of
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.judging import CompileFailed, GateMissed, Passed
from gemm_lessons.running import Builder, builder_for, steps_of

if TYPE_CHECKING:
    from gemm_lessons.devices import Entrant, Gpu

AT_ONCE = 6  # kernels timed in one run, beside cuBLAS
SECONDS = 0.5  # of timed launches, all kernels of such a run together


@dataclass(frozen=True)
class TuneRequest:
    """A lesson whose search space is to be tried. ``measured``: how many of the best by estimate are timed on a GPU."""

    course: Course
    lesson: Lesson
    path: Path
    shape: Shape
    device: Device
    gpu: GpuSpec
    csv: Path | None = None
    measured: int = 24
    processes: int = 1
    seconds: float = SECONDS

    @property
    def target(self) -> BuildTarget:
        """Return the compile target. Raise ``KitError``."""
        return builder_for(self.device, self.gpu, self.lesson.architecture, self.lesson.needs).target


@dataclass(frozen=True)
class Tuning:
    """All candidates, the fastest first and the omitted ones last; ``own``: the lesson's own sizes."""

    candidates: tuple[TileCandidate, ...]
    own: TileCandidate
    notes: tuple[str, ...] = ()
    reused: int = 0

    @property
    def ranked(self) -> tuple[TileCandidate, ...]:
        """Return the right candidates, the fastest first: measured ones before those that are only estimated."""
        return tuple(it for it in self.candidates if it.tuned.estimate_us is not None)

    @property
    def measured(self) -> tuple[TileCandidate, ...]:
        """Return the timed candidates, the fastest first."""
        return tuple(it for it in self.ranked if it.tuned.time_us is not None)

    @property
    def place(self) -> int | None:
        """Return the rank, from 1, that the estimate gave to the candidate measured as the fastest."""
        if not self.measured:
            return None
        by_estimate = sorted(self.ranked, key=lambda it: it.tuned.estimate_us or 0.0)
        return by_estimate.index(self.measured[0]) + 1


def tune(request: TuneRequest, progress: TellSteps = lambda done, total, what: None) -> Tuning:
    """Try all candidates. Raise ``CommandError`` for a wrong CSV file or nothing to try, and ``KitError``."""
    lesson, source = request.lesson, read_source(request.path)
    own = {name: lesson.tile.defines[name] for name, _ in lesson.search.values}
    wanted = [own, *(sizes for sizes in lesson.search.candidates(lesson.tile.defines) if sizes != own)]
    book = TuningBook.of(request.csv)
    found: list[TileCandidate] = []
    missing: list[TileCandidate] = []
    for sizes in wanted:
        candidate = _candidate(request, sizes, source)
        known = book.known(candidate)
        if known is not None:
            found.append(replace(candidate, tuned=known))
        else:
            (missing if not candidate.tuned.why_not else found).append(candidate)
    reused = sum(not it.tuned.why_not for it in found)
    progress(0, len(missing), "compile, run, estimate")
    for done, candidate in enumerate(_evaluated(request, missing)):
        book.add(candidate)
        found.append(candidate)
        progress(done + 1, len(missing), candidate.text)
    notes: list[str] = []
    if (timer := request.device.timer) is not None:
        found = _timed(request, timer, found, own, book, notes, progress)
    mine = next(it for it in found if it.sizes == own)
    return Tuning(tuple(sorted(found, key=_rank)), mine, tuple(notes), reused)


def _rank(candidate: TileCandidate) -> tuple[int, float, str]:
    tuned = candidate.tuned
    if tuned.why_not:
        return 2, 0.0, candidate.text
    if tuned.time_us is not None:
        return 0, tuned.time_us, candidate.text
    return 1, tuned.estimate_us or 0.0, candidate.text


def _candidate(request: TuneRequest, sizes: Mapping[str, int], source: str) -> TileCandidate:
    """Return a candidate that is not compiled yet, with the reason if it cannot be launched."""
    why_not, print_ = "", ""
    try:
        lesson = retiled(request.lesson, sizes)
        print_ = fingerprint(lesson, source)
        refusal = lesson.shapes.refusal(request.shape)
        if refusal is not None:
            why_not = f"cannot take the shape: {refusal}"
    except CommandError as error:
        why_not = error.why if isinstance(error, UnfitTile) else str(error)
    return TileCandidate(dict(sizes), print_, request.gpu.name, str(request.shape), Tuned(why_not=why_not))


def _evaluated(request: TuneRequest, candidates: Sequence[TileCandidate]) -> Iterator[TileCandidate]:
    """Yield each candidate, compiled, checked and estimated, as it finishes."""
    about = (request.course.root, request.lesson.name, request.path, request.shape, request.gpu, request.target)
    if request.processes == 1 or len(candidates) < 2:
        for candidate in candidates:
            yield replace(candidate, tuned=_evaluate(*about, candidate.sizes))
        return
    ignored = (signal.SIGINT, signal.SIG_IGN)  # this process handles Ctrl-C and then ends the others
    with ProcessPoolExecutor(request.processes, get_context("spawn"), signal.signal, ignored) as pool:
        asked = {pool.submit(_evaluate, *about, candidate.sizes): candidate for candidate in candidates}
        try:
            for done in as_completed(asked):
                yield replace(asked[done], tuned=done.result())
        finally:
            pool.shutdown(cancel_futures=True)


def _evaluate(
    root: Path, name: str, path: Path, shape: Shape, gpu: GpuSpec, target: BuildTarget, sizes: Mapping[str, int]
) -> Tuned:
    """Compile one candidate, run it on its counting shape, and estimate its time."""
    from gemm_lessons.devices import Simulated
    from gemm_lessons.running import RunRequest, run_lesson

    course = Course(root)
    lesson = retiled(course.lesson(name), sizes).at(shape)
    compiled = Builder(target).build(lesson, path, read_source(path))
    if isinstance(compiled, CompileFailed):
        first = next((it.message for it in compiled.diagnostics if it.severity == "error"), compiled.message)
        return Tuned(why_not=f"does not compile: {first}")
    grids = lesson.grids(shape)
    fits = [occupancy_of(it.resources, g.threads, g.dynamic_shared, gpu) for it, g in zip(compiled, grids, strict=True)]
    registers = max(it.resources.registers for it in compiled)
    spilled = max(it.resources.spill_bytes for it in compiled)
    made = Tuned(registers=registers, blocks_per_sm=min(it.blocks_per_sm for it in fits))
    if spilled:
        return replace(made, why_not="registers are spilled to local memory")
    if not made.blocks_per_sm:
        return replace(made, why_not="not one block fits on a multiprocessor")
    alone = replace(lesson, shapes=replace(lesson.shapes, check=()))
    try:
        row = run_lesson(RunRequest(course, alone, path, Simulated(), gpu, beside=False)).kernel
    except UnsupportedKernel as error:
        return replace(made, why_not=f"the simulator cannot run it: {error}")
    if not isinstance(row.verdict, Passed | GateMissed):
        return replace(made, why_not=row.verdict.kind.replace("_", " "))
    if row.speed.estimator is None:
        return replace(made, why_not="the estimate does not know all of its machine instructions")
    estimate = row.speed.estimator.at(shape, gpu)
    return replace(made, estimate_us=estimate.time_us, estimate_gflops=estimate.gflops, limiter=estimate.limiter)


def _timed(
    request: TuneRequest,
    timer: Gpu,
    found: Sequence[TileCandidate],
    own: Mapping[str, int],
    book: TuningBook,
    notes: list[str],
    progress: TellSteps,
) -> list[TileCandidate]:
    """Return all candidates, with times for the best by estimate and for the lesson's own sizes."""
    ranked = sorted((it for it in found if it.tuned.estimate_us is not None), key=lambda it: it.tuned.estimate_us or 0)
    chosen = [it for it in ranked if it.sizes == own or it in ranked[: request.measured]]
    waiting = [it for it in chosen if it.tuned.time_us is None]
    times: dict[str, Tuned] = {}
    for first in range(0, len(waiting), AT_ONCE):
        progress(first, len(waiting), "time")
        group = waiting[first : first + AT_ONCE]
        for candidate in _measure(request, timer, group, notes):
            times[candidate.text] = candidate.tuned
            book.add(candidate)
    return [replace(it, tuned=times.get(it.text, it.tuned)) for it in found]


def _measure(
    request: TuneRequest, timer: Gpu, group: Sequence[TileCandidate], notes: list[str]
) -> Iterator[TileCandidate]:
    """Time a group in one run with cuBLAS; omit a candidate that faults, and time the rest again."""
    by_text = {it.text: it for it in group}
    while by_text:
        entrants = [_entrant(request, it) for it in by_text.values()]
        data = request.lesson.at(request.shape).data
        measured = timer.measure(data, request.shape, entrants, seed=secrets.randbits(32), seconds=request.seconds)
        if measured.fault is not None:
            if measured.culprit not in by_text:
                raise KitError(f"{measured.culprit or 'the GPU'} failed at {request.shape}: {measured.fault.message}")
            lost = by_text.pop(measured.culprit)
            yield replace(lost, tuned=replace(lost.tuned, estimate_us=None, why_not=measured.fault.message))
            continue
        notes += [note for note in measured.notes if note not in notes]
        for it in measured.kernels:
            tuned = by_text[it.label].tuned
            if it.wrong or it.overran:
                tuned = replace(tuned, estimate_us=None, why_not="wrong answer at this shape")
            else:
                tuned = replace(tuned, time_us=it.time_us, gflops=it.gflops, of_cublas=it.of_cublas)
            yield replace(by_text[it.label], tuned=tuned)
        return


def _entrant(request: TuneRequest, candidate: TileCandidate) -> Entrant:
    from gemm_lessons.devices import Entrant

    lesson = retiled(request.lesson, candidate.sizes).at(request.shape)
    compiled = Builder(request.target).build(lesson, request.path, read_source(request.path))
    assert not isinstance(compiled, CompileFailed)  # the candidate compiled before
    return Entrant(candidate.text, "reference", steps_of(lesson, compiled, lesson.grids(request.shape)), lesson.data)


@dataclass(frozen=True)
class Tuned:
    """The result for a candidate; times in us, speeds in 10^9 operations/s. ``why_not``: why it is omitted."""

    why_not: str = ""
    registers: int | None = None
    blocks_per_sm: int | None = None
    estimate_us: float | None = None
    estimate_gflops: float | None = None
    limiter: str = ""
    time_us: float | None = None  # measured: the median
    gflops: float | None = None
    of_cublas: float | None = None


@dataclass(frozen=True)
class TileCandidate:
    """Tile sizes, their compiled kernel (``kernel``: the fingerprint of source and sizes), and the result."""

    sizes: Mapping[str, int]
    kernel: str
    gpu: str
    shape: str
    tuned: Tuned = field(default=Tuned())

    @property
    def text(self) -> str:
        """Return ``BM=64 BN=128``."""
        return " ".join(f"{name}={size}" for name, size in self.sizes.items())

    @property
    def key(self) -> tuple[str, ...]:
        """Return the fields that identify a candidate."""
        return self.kernel, self.gpu, self.shape


KEY = ("kernel", "gpu", "shape")
COLUMNS = (*KEY, "tile", *(it.name for it in fields(Tuned)))
_NUMBERS: Mapping[str, type] = {
    "registers": int, "blocks_per_sm": int, "estimate_us": float, "estimate_gflops": float, "time_us": float,
    "gflops": float, "of_cublas": float,
}  # fmt: skip


class TuningBook:
    """The results so far, and the file that stores them; a later line of the same candidate replaces earlier ones."""

    def __init__(self, path: Path | None, rows: Mapping[tuple[str, ...], Tuned]) -> None:
        self._path = path
        self._rows = dict(rows)

    @classmethod
    def of(cls, path: Path | None) -> TuningBook:
        """Read the file. Raise ``CommandError`` for a file of another kind."""
        if path is None or not path.exists():
            return cls(path, {})
        rows = read_lines(path, "tune", (COLUMNS,))
        found = [(tuple(row[name] for name in KEY), _tuned(row)) for row in rows]
        return cls(path, {key: tuned for key, tuned in found if tuned is not None})

    def known(self, candidate: TileCandidate) -> Tuned | None:
        """Return the candidate's result, if there is one."""
        return self._rows.get(candidate.key)

    def add(self, candidate: TileCandidate) -> None:
        """Store a candidate, in the file first. Raise ``WriteError``."""
        if self._path is not None:
            row = {**dict(zip(KEY, candidate.key, strict=True)), "tile": candidate.text, **asdict(candidate.tuned)}
            append_lines(self._path, COLUMNS, [{name: "" if value is None else value for name, value in row.items()}])
        self._rows[candidate.key] = candidate.tuned


def _tuned(row: Mapping[str, Any]) -> Tuned | None:
    """Return a line of the file; None for an incomplete line."""
    try:
        numbers = {name: kind(row[name]) if row[name] else None for name, kind in _NUMBERS.items()}
    except ValueError:
        return None
    return Tuned(why_not=row["why_not"], limiter=row["limiter"], **numbers)
