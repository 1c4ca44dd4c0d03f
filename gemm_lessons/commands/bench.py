"""Benchmark every lesson at every size: measured on a GPU beside cuBLAS, or estimated.

Every point is appended to a CSV file as soon as it is computed, and points in the file are not computed again. A
benchmark can therefore be stopped and resumed, and only changed points (kernel, GPU, compiler) are measured anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemm_lessons.commands.points import CUBLAS, FP32, Group, Point, append, grouped, label, read, type_of
from gemm_lessons.course import Course, Lesson, read_source
from gemm_lessons.devices import Device, Entrant, Gpu, Measurement, Timed, reasons
from gemm_lessons.engine import GpuSpec, KitError, UnsupportedKernel
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Estimator, Shape
from gemm_lessons.judging import CompileFailed, Passed
from gemm_lessons.running import estimator_of, steps_of

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler import Compiled

WAVEFRONT_BYTES = 128  # bytes that shared memory and L1 move per multiprocessor and clock
SECONDS = 2.0  # of timed launches per size, all kernels together
SAME_RUN = 1e-4  # relative: the CSV file has six digits
SCHEMA = "gemm-lessons/bench/1"

TellSteps = Callable[[int, int, str], None]  # steps done, steps in all, the next step


@dataclass(frozen=True)
class BenchRequest:
    """What to benchmark, and the device. ``mine`` takes the learner's ``kernel.cu`` where there is one."""

    course: Course
    lessons: Sequence[Lesson]
    shapes: Sequence[Shape]
    device: Device
    gpu: GpuSpec
    csv: Path | None = None
    mine: bool = False
    seconds: float = SECONDS


@dataclass(frozen=True)
class Note:
    """Why a number is missing, or a reason to doubt one. ``kind`` is one of ``MISSING`` or of the reasons' kinds."""

    kind: str
    text: str  # a whole sentence
    series: str = ""  # the kernel; empty: all of them
    size: str = ""  # the shape's label; empty: all of them

    @property
    def is_doubt(self) -> bool:
        """Tell whether the numbers exist but may be wrong."""
        return self.kind not in MISSING


VERDICTS = {"compile_failed": "no build", "faulted": "fault", "timed_out": "fault"}
MISSING = ("shape refused", "no solution", "no build", "no estimate", "fault", "wrong answer", "not timed")


@dataclass(frozen=True)
class Result:
    """All requested points that could be computed, old and new, notes, and every requested kernel's number type."""

    points: tuple[Point, ...]
    remarks: tuple[Note, ...] = ()
    reused: int = 0
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return all notes as sentences."""
        return tuple(it.text for it in self.remarks)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the kernels by number type, each group beside its own cuBLAS."""
        return grouped(self.points, self.types)


@dataclass
class _Made:
    """A kernel as the host chooses it at some of the shapes; its ``estimator`` is made when a point is missing."""

    lesson: Lesson
    kernels: tuple[Compiled, ...]
    estimator: Estimator | None = None


@dataclass
class _Series:
    """One kernel file. ``made`` has a kernel for each choice of the host; most lessons have one for all shapes."""

    lesson: Lesson
    name: str
    path: Path
    source: str
    fingerprint: str
    compiler: str
    made: dict[Lesson, _Made]

    def at(self, shape: Shape) -> _Made | None:
        """Return the kernel that is launched at this shape; None before it is made."""
        return self.made.get(self.lesson.at(shape))

    def takes(self, shape: Shape) -> bool:
        """Tell whether the lesson's contract allows this shape."""
        return self.lesson.shapes.refusal(shape) is None


@dataclass
class _Book:
    """The points so far, and the file that stores them."""

    path: Path | None
    points: dict[tuple[str, ...], Point] = field(default_factory=dict)

    def add(self, points: Iterable[Point]) -> None:
        """Store points, in the file first."""
        new = list(points)
        if self.path is not None:
            append(self.path, new)
        self.points |= {point.key: point for point in new}


def run_bench(request: BenchRequest, progress: TellSteps = lambda done, total, what: None) -> Result:
    """Measure or estimate everything that the CSV file does not have yet.

    Raises ``CommandError`` (a file that cannot be read or is not a benchmark), ``KitError``.
    """
    from gemm_lessons.devices import stage

    old = read(request.csv) if request.csv is not None and request.csv.exists() else []
    book = _Book(request.csv, {point.key: point for point in old})
    notes: list[Note] = []
    steps = len(request.lessons) + len(request.shapes)
    series: list[_Series] = []
    for done, lesson in enumerate(request.lessons):
        progress(done, steps, f"count {lesson.name}")
        found = _compile(request, lesson)
        if isinstance(found, _Series):
            shapes = [shape for shape in request.shapes if found.takes(shape)]
            if missing := [shape for shape in shapes if _key(request, found, shape) not in book.points]:
                found = _count(request, found, missing)
        if isinstance(found, _Series):
            series.append(found)
        else:
            notes.append(found)
    reused = 0
    wanted: list[Point] = []
    for done, shape in enumerate(request.shapes):
        progress(len(request.lessons) + done, steps, str(shape))
        allowed = [it for it in series if it.takes(shape)]
        at = label(shape)
        refused = ((it.name, it.lesson.shapes.refusal(shape)) for it in series if it not in allowed)
        notes += [Note("shape refused", f"{name} cannot take {at}: {why}.", name, at) for name, why in refused]
        lacking = [it for it in allowed if _key(request, it, shape) not in book.points]
        reused += len(allowed) - len(lacking)
        if (timer := request.device.timer) is not None:
            if lacking:
                with stage("time", str(shape), payload=2 * shape.m * shape.n * shape.k):
                    book.add(_measure(timer, request, lacking, shape, notes))
            wanted += _libraries(book, request, allowed, shape)
        else:
            book.add(_estimated(request, it, shape) for it in lacking)
        wanted += [book.points[key] for it in allowed if (key := _key(request, it, shape)) in book.points]
    progress(steps, steps, "")
    types = {_name(request, lesson): type_of(lesson.data) for lesson in request.lessons}
    return Result(tuple(wanted), tuple(dict.fromkeys(notes)), reused, types)


def bench_as_json(result: Result) -> dict[str, Any]:
    """Return the result for scripts: points with the CSV file's columns and the number type, and all notes."""

    def line(point: Point) -> dict[str, Any]:
        cells = {it.name: getattr(point, it.name) for it in fields(Point)}
        kind = point.kernel or FP32 if point.series == CUBLAS else result.types.get(point.series, "")
        return {"type": kind, **{it: cells[it] for it in cells if it != "shape"}, "size": label(point.shape)}

    notes = [{it.name: getattr(note, it.name) for it in fields(Note)} for note in result.remarks]
    return {"schema": SCHEMA, "points": [line(point) for point in result.points], "notes": notes}


def _name(request: BenchRequest, lesson: Lesson) -> str:
    return f"{lesson.name} (yours)" if request.mine and lesson.kernel_path.is_file() else lesson.name


def _compile(request: BenchRequest, lesson: Lesson) -> _Series | Note:
    """Compile the lesson's kernel, or return a note why it is omitted."""
    from gemm_lessons.running import WrongGpu, builder_for

    mine = request.mine and lesson.kernel_path.is_file()
    path = lesson.kernel_path if mine else request.course.solution(lesson)
    name = _name(request, lesson)
    if path is None:
        return Note("no solution", f"{name} has no solution here.", name)
    device, source = request.device, read_source(path)
    try:
        builder = builder_for(device, request.gpu, lesson.architecture, lesson.needs)
    except WrongGpu as error:
        return Note("no build", f"{name} is left out: {error}.", name)
    compiled = builder.build(lesson, path, source)
    if isinstance(compiled, CompileFailed):
        return Note("no build", f"{name} is left out: it does not compile.", name)
    made = {lesson: _Made(lesson, compiled)}
    return _Series(lesson, name, path, source, fingerprint(lesson, source), compiled[0].compiler, made)


def _count(request: BenchRequest, series: _Series, shapes: Sequence[Shape]) -> _Series | Note:
    """Check the kernel and count, for each way that it is launched at these shapes; or return why it is omitted."""
    from gemm_lessons.devices import Simulated
    from gemm_lessons.running import RunRequest, run_lesson

    row = run_lesson(
        RunRequest(request.course, series.lesson, series.path, Simulated(), request.gpu, beside=False)
    ).kernel
    if row.speed.estimator is None:
        if isinstance(row.verdict, Passed):
            why = "the estimate does not know all of its machine instructions"
            return Note("no estimate", f"{series.name} is left out: {why}.", series.name)
        kind = VERDICTS.get(row.verdict.kind, "wrong answer")
        verdict = row.verdict.kind.replace("_", " ")
        return Note(kind, f"{series.name} is left out: its verdict is {verdict}.", series.name)
    if not series.lesson.choices:
        series.made[series.lesson].estimator = row.speed.estimator
        return series
    return _chosen(request, series, shapes)


def _chosen(request: BenchRequest, series: _Series, shapes: Sequence[Shape]) -> _Series | Note:
    """Add a kernel for each choice that the host makes at these shapes."""
    from gemm_lessons.running import builder_for

    for lesson, shape in {series.lesson.at(shape): shape for shape in shapes}.items():
        if lesson not in series.made:
            compiled = builder_for(request.device, request.gpu, lesson.architecture, lesson.needs).build(
                lesson, series.path, series.source
            )
            if isinstance(compiled, CompileFailed):
                why = "it does not compile for every shape"
                return Note("no build", f"{series.name} is left out: {why}.", series.name)
            series.made[lesson] = _Made(lesson, compiled)
        made = series.made[lesson]
        found = estimator_of(lesson, made.kernels, request.gpu, shape)
        if isinstance(found, str):
            return Note("no estimate", f"{series.name} is left out: {found}.", series.name)
        made.estimator = found
    return series


def fingerprint(lesson: Lesson, source: str) -> str:
    """Return twelve hex digits over all that the compiler reads: the source, the tile sizes, the common headers."""
    data = replace(lesson.data, padded=frozenset())  # the order of a set is another one in each process
    parts = [source, repr(sorted(lesson.tile.defines.items())), repr(lesson.launches), repr(data)]
    parts += sorted(lesson.data.padded)
    parts += [lesson.architecture] * bool(lesson.architecture)
    parts += [repr(lesson.choices)] * bool(lesson.choices) + [repr(lesson.options)] * bool(lesson.options)
    for folder in lesson.include_dirs:
        parts += [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.cuh")) if path.is_file()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def flop_per_byte(estimator: Estimator, shape: Shape) -> float | None:
    """Return operations / bytes of the kernels' wavefronts on the path to shared memory and L1."""
    moved, operations = 0.0, 0
    for profile, grid in zip(estimator.profiles, estimator.grids_at(shape), strict=True):
        work = profile.work(shape.k)
        moved += grid.blocks * WAVEFRONT_BYTES * (work.shared_wavefronts + work.global_lines)
        operations += profile.traffic.operations(shape)
    return operations / moved if moved else None


def _point(request: BenchRequest, series: _Series, shape: Shape) -> Point:
    """Return a point without its time."""
    device, made = request.device, series.at(shape)
    return Point(
        date=date.today().isoformat(),
        kind="measured" if device.kind == "gpu" else "estimated",
        gpu=device.name if device.kind == "gpu" else request.gpu.name,
        series=series.name,
        kernel=series.fingerprint,
        shape=shape,
        flop_per_byte=flop_per_byte(made.estimator, shape) if made and made.estimator else None,
        compiler=series.compiler,
    )


def _key(request: BenchRequest, series: _Series, shape: Shape) -> tuple[str, ...]:
    return _point(request, series, shape).key


def _estimated(request: BenchRequest, series: _Series, shape: Shape) -> Point:
    made = series.at(shape)
    assert made is not None
    assert made.estimator is not None, "_count has been there"
    estimate = made.estimator.at(shape, request.gpu)
    point = _point(request, series, shape)
    return replace(point, time_us=estimate.time_us, gflops=estimate.gflops, limiter=estimate.limiter)


def _measure(
    gpu: Gpu, request: BenchRequest, missing: Sequence[_Series], shape: Shape, notes: list[Note]
) -> list[Point]:
    """Time these kernels and cuBLAS in one run; omit a kernel that faults, and time the rest again."""
    import secrets

    points: list[Point] = []
    groups: list[list[_Series]] = []
    for it in missing:
        data = it.lesson.at(shape).data
        alike = (group for group in groups if data.asks_the_same(group[0].lesson.at(shape).data, shape.names))
        like = next(alike, None)
        if like is None:
            groups.append([it])
        else:
            like.append(it)
    for group in groups:
        while group:
            made = [(it.name, it.at(shape)) for it in group]
            entrants = [
                Entrant(name, "reference", steps_of(it.lesson, it.kernels, it.lesson.grids(shape)), it.lesson.data)
                for name, it in made
                if it is not None
            ]
            data = group[0].lesson.at(shape).data
            seed = secrets.randbits(32)
            try:
                measured = gpu.measure(data, shape, entrants, seed=seed, seconds=request.seconds)
            except UnsupportedKernel as error:
                notes += [Note("not timed", f"{it.name} is not timed: {error}.", it.name, label(shape)) for it in group]
                break
            if measured.fault is None:
                known = {point.kernel for point in points if point.series == CUBLAS}
                found = _points(request, group, measured, notes)
                points += [it for it in found if it.series != CUBLAS or it.kernel not in known]
                break
            if measured.culprit not in [it.name for it in group]:
                raise KitError(f"{measured.culprit or 'the GPU'} failed at {shape}: {measured.fault.message}")
            text = f"{measured.culprit} is left out at {label(shape)}: {measured.fault.message}"
            notes.append(Note("fault", text, measured.culprit, label(shape)))
            group = [it for it in group if it.name != measured.culprit]
    return points


def _points(request: BenchRequest, group: Sequence[_Series], measured: Measurement, notes: list[Note]) -> list[Point]:
    shape, at = measured.shape, label(measured.shape)
    raw = (*measured.kernels, measured.cublas)
    doubts = reasons({it.label: it.spread for it in raw if it is not None}, measured.health, measured.held)
    notes += [Note(it.kind, f"At {at}: {it.text}", it.label, at) for it in doubts]
    timed = {it.label: it for it in measured.kernels}
    found = []
    for series in group:
        it = timed[series.name]
        if it.wrong or it.overran:
            what = "writes out of bounds" if it.overran else f"{it.wrong} elements are wrong"
            notes.append(Note("wrong answer", f"{series.name} is left out at {at}: {what}.", series.name, at))
            continue
        found.append(_filled(_point(request, series, shape), it, measured))
    if measured.cublas is not None:
        of = type_of(group[0].lesson.data)
        blank = replace(_point(request, group[0], shape), series=CUBLAS, kernel=of, flop_per_byte=None, compiler="")
        found.append(_filled(blank, measured.cublas, measured))
    return found


def _filled(point: Point, timed: Timed, measured: Measurement) -> Point:
    return replace(
        point,
        time_us=timed.time_us,
        q1_us=timed.spread.q1,
        q3_us=timed.spread.q3,
        launches=len(timed.spread.times),
        gflops=timed.gflops,
        of_cublas=timed.of_cublas,
        clock_mhz=min(measured.health.clocks_mhz, default=None),
        watts=measured.health.watts,
        driver=measured.driver,
        cublas=version(measured.cublas_version),
    )


def version(number: int) -> str:
    """Return cuBLAS's number as it is usually written: 130100 -> 13.1.0."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _libraries(book: _Book, request: BenchRequest, kernels: Sequence[_Series], shape: Shape) -> list[Point]:
    """Return the newest point of cuBLAS at this shape in each number type of the kernels."""
    gpu, found = request.device.name, []
    stored = [
        it for it in book.points.values() if (it.series, it.gpu, it.shape, it.kind) == (CUBLAS, gpu, shape, "measured")
    ]
    for of in dict.fromkeys(type_of(it.lesson.data) for it in kernels):
        own = [book.points.get(_key(request, it, shape)) for it in kernels if type_of(it.lesson.data) == of]
        known = [it for it in stored if it.kernel == of]
        # Older files do not name cuBLAS's type; the speeds of kernels beside it tell.
        known = known or [replace(it, kernel=of) for it in stored if not it.kernel and any(_beside(it, own))]
        found += known[-1:]
    return found


def _beside(library: Point, kernels: Sequence[Point | None]) -> Iterable[bool]:
    for it in kernels:
        if it is not None and it.of_cublas:
            yield abs(it.gflops / it.of_cublas / library.gflops - 1) < SAME_RUN
