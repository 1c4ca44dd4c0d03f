"""Benchmark every lesson at every size: measured on a GPU beside cuBLAS, or estimated.

Every point is appended to a CSV file as soon as it is computed, and points in the file are not computed again. A
benchmark can therefore be stopped and resumed, and only changed points (kernel, GPU, compiler) are measured anew.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, fields, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gemm_lessons.course.csv_log import append_lines
from gemm_lessons.course.folder import CommandError, Course, ReadError, read_source, shown
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.devices.device import Device
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.records import Entrant, Measurement, Timed
from gemm_lessons.engine.hardware.sheets import GpuSpec
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.data import LAYOUTS
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimator, Work
from gemm_lessons.judging.verdict import CompileFailed, Passed
from gemm_lessons.running.estimating import estimator_of
from gemm_lessons.running.measuring import steps_of

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

CUBLAS = "cuBLAS"
WAVEFRONT_BYTES = 128  # bytes that shared memory and L1 move per multiprocessor and clock
SECONDS = 2.0  # of timed launches per size, all kernels together

Kind = Literal["measured", "estimated"]
TellSteps = Callable[[int, int, str], None]  # steps done, steps in all, the next step


@dataclass(frozen=True)
class Point:
    """One kernel at one shape; a line of the CSV file, whose column ``size`` has the shape's ``label``.

    ``gflops`` are 10^9 operations per second at the median time. ``flop_per_byte`` counts the bytes of the kernel's
    wavefronts on the path to shared memory and L1, by the simulator; it is None for cuBLAS.
    """

    date: str
    kind: Kind
    gpu: str
    series: str  # the lesson's name, or cuBLAS
    kernel: str  # fingerprint of the source and everything compiled with it
    shape: Shape
    time_us: float
    q1_us: float | None  # quartiles of the measured times
    q3_us: float | None
    launches: int
    gflops: float
    of_cublas: float | None  # speed / cuBLAS's speed in the same run
    limiter: str  # of an estimate
    flop_per_byte: float | None
    clock_mhz: int | None  # the lowest seen while timing
    driver: str
    cublas: str
    compiler: str

    @property
    def key(self) -> tuple[str, ...]:
        """Return the fields that identify a point."""
        return (self.kind, self.gpu, self.series, self.kernel, label(self.shape), self.compiler)


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
class Result:
    """All requested points that could be computed, old and new, and notes for the reader."""

    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()
    reused: int = 0


@dataclass
class _Made:
    """A kernel as the host chooses it at some of the shapes; its ``estimator`` is made when a point is missing."""

    lesson: Lesson
    kernels: tuple[Compiled, ...]
    estimator: Estimator | None = None


@dataclass
class _Series:
    """One kernel file. ``made`` is by the host's choice: most lessons have one kernel for all shapes."""

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


def bench(request: BenchRequest, progress: TellSteps = lambda done, total, what: None) -> Result:
    """Measure or estimate everything that the CSV file does not have yet.

    Raises ``CommandError`` (a file that cannot be read or is no benchmark), ``KitError``.
    """
    from gemm_lessons.devices.gpu.ranges import stage

    old = read(request.csv) if request.csv is not None and request.csv.exists() else []
    book = _Book(request.csv, {point.key: point for point in old})
    notes: list[str] = []
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
        refused = ((it.name, it.lesson.shapes.refusal(shape)) for it in series if it not in allowed)
        notes += [f"{name} cannot take {label(shape)}: {why}." for name, why in refused]
        lacking = [it for it in allowed if _key(request, it, shape) not in book.points]
        reused += len(allowed) - len(lacking)
        if (timer := request.device.timer) is not None:
            if lacking:
                with stage("time", str(shape), payload=2 * shape.m * shape.n * shape.k):
                    book.add(_measure(timer, request, lacking, shape, notes))
            baseline = _latest(book, request.device.name, shape)
            wanted += [baseline] if baseline else []
        else:
            book.add(_estimated(request, it, shape) for it in lacking)
        wanted += [book.points[key] for it in allowed if (key := _key(request, it, shape)) in book.points]
    progress(steps, steps, "")
    return Result(tuple(wanted), tuple(dict.fromkeys(notes)), reused)


def is_square(shape: Shape) -> bool:
    """Tell whether M = N = K, with A and B in the default layout."""
    return shape.m == shape.n == shape.k and shape.layout == LAYOUTS[0]


def label(shape: Shape) -> str:
    """Return ``4096``, or ``128x128x8192 TN``."""
    return str(shape.m) if is_square(shape) else str(shape)


def shape_of(text: str) -> Shape:
    """Return the shape with this label. Raises ``ValueError``."""
    sizes, _, layout = text.partition(" ")
    found = [int(size) for size in sizes.split("x")]
    if len(found) not in (1, 3) or (layout and layout not in LAYOUTS):
        raise ValueError(f"{text!r} is no shape")
    m, n, k = found * (3 // len(found))
    return Shape(m, n, k, layout=layout or LAYOUTS[0])


def _compile(request: BenchRequest, lesson: Lesson) -> _Series | str:
    """Compile the lesson's kernel, or return a note why it is omitted."""
    from gemm_lessons.running.builder import builder_for

    mine = request.mine and lesson.kernel_path.is_file()
    path = lesson.kernel_path if mine else request.course.solution(lesson)
    if path is None:
        return f"{lesson.name} has no solution here."
    device, source = request.device, read_source(path)
    name = f"{lesson.name} (yours)" if mine else lesson.name
    compiled = builder_for(device, request.gpu).build(lesson, path, source)
    if isinstance(compiled, CompileFailed):
        return f"{name} is left out: it does not compile."
    made = {lesson: _Made(lesson, compiled)}
    return _Series(lesson, name, path, source, fingerprint(lesson, source), compiled[0].compiler, made)


def _count(request: BenchRequest, series: _Series, shapes: Sequence[Shape]) -> _Series | str:
    """Check the kernel on the simulator and count, for each way that it is launched at these shapes; or return a note
    why it is omitted."""
    from gemm_lessons.devices.simulated import Simulated
    from gemm_lessons.running.pipeline import RunRequest, run_lesson

    row = run_lesson(
        RunRequest(request.course, series.lesson, series.path, Simulated(), request.gpu, beside=False)
    ).kernel
    if row.speed.estimator is None:
        if isinstance(row.verdict, Passed):
            return f"{series.name} is left out: the estimate does not know all of its machine instructions."
        return f"{series.name} is left out: its verdict is {row.verdict.kind.replace('_', ' ')}."
    if not series.lesson.choices:
        series.made[series.lesson].estimator = row.speed.estimator
        return series
    return _chosen(request, series, shapes)


def _chosen(request: BenchRequest, series: _Series, shapes: Sequence[Shape]) -> _Series | str:
    """Add a kernel for each choice that the host makes at these shapes."""
    from gemm_lessons.running.builder import builder_for

    for lesson, shape in {series.lesson.at(shape): shape for shape in shapes}.items():
        if lesson not in series.made:
            compiled = builder_for(request.device, request.gpu).build(lesson, series.path, series.source)
            if isinstance(compiled, CompileFailed):
                return f"{series.name} is left out: it does not compile for every shape."
            series.made[lesson] = _Made(lesson, compiled)
        made = series.made[lesson]
        made.estimator = estimator_of(lesson, made.kernels, request.gpu, shape)
        if made.estimator is None:
            return f"{series.name} is left out: no block fits on {request.gpu.name}, or it is beyond the estimate."
    return series


def fingerprint(lesson: Lesson, source: str) -> str:
    """Return twelve hex digits over everything that the compiler reads: the source, the tile sizes, the common
    headers."""
    parts = [source, repr(sorted(lesson.tile.defines.items())), repr(lesson.launches), repr(lesson.data)]
    parts += [repr(lesson.choices)] * bool(lesson.choices) + [repr(lesson.options)] * bool(lesson.options)
    for folder in lesson.include_dirs:
        parts += [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.cuh")) if path.is_file()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def flop_per_byte(estimator: Estimator, shape: Shape) -> float | None:
    """Return operations / bytes of the kernels' wavefronts on the path to shared memory and L1."""
    moved, operations = 0.0, 0
    for profile, grid in zip(estimator.profiles, estimator.grids_at(shape), strict=True):
        work: Work = profile.work(shape.k)
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
        time_us=0.0,
        q1_us=None,
        q3_us=None,
        launches=0,
        gflops=0.0,
        of_cublas=None,
        limiter="",
        flop_per_byte=flop_per_byte(made.estimator, shape) if made and made.estimator else None,
        clock_mhz=None,
        driver="",
        cublas="",
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
    gpu: Gpu, request: BenchRequest, missing: Sequence[_Series], shape: Shape, notes: list[str]
) -> list[Point]:
    """Time these kernels and cuBLAS in one run; omit a kernel that faults, and time the rest again."""
    import secrets

    points: list[Point] = []
    groups: list[list[_Series]] = []
    for it in missing:
        data = it.lesson.at(shape).data
        alike = (group for group in groups if data.asks_the_same(group[0].lesson.at(shape).data, shape.names))
        found = next(alike, None)
        if found is None:
            groups.append([it])
        else:
            found.append(it)
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
            measured = gpu.measure(data, shape, entrants, seed=seed, seconds=request.seconds)
            if measured.fault is None:
                points += _points(request, group, measured, notes)
                break
            if measured.culprit not in [it.name for it in group]:
                raise KitError(f"{measured.culprit or 'the GPU'} failed at {shape}: {measured.fault.message}")
            notes.append(f"{measured.culprit} is left out at {label(shape)}: {measured.fault.message}")
            group = [it for it in group if it.name != measured.culprit]
    return points


def _points(request: BenchRequest, group: Sequence[_Series], measured: Measurement, notes: list[str]) -> list[Point]:
    shape = measured.shape
    notes += [f"At {label(shape)}: {note}" for note in measured.notes]
    timed = {it.label: it for it in measured.kernels}
    found = []
    for series in group:
        it = timed[series.name]
        if it.wrong or it.overran:
            what = "writes out of bounds" if it.overran else f"{it.wrong} elements are wrong"
            notes.append(f"{series.name} is left out at {label(shape)}: {what}.")
            continue
        found.append(_filled(_point(request, series, shape), it, measured))
    if measured.cublas is not None:
        blank = replace(_point(request, group[0], shape), series=CUBLAS, kernel="", flop_per_byte=None, compiler="")
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
        of_cublas=measured.fraction(timed),
        clock_mhz=min(measured.health.clocks_mhz, default=None),
        driver=measured.driver,
        cublas=version(measured.cublas_version),
    )


def version(number: int) -> str:
    """Return cuBLAS's number as it is usually written: 130100 -> 13.1.0."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _latest(book: _Book, gpu: str, shape: Shape) -> Point | None:
    found = [
        it for it in book.points.values() if (it.series, it.gpu, it.shape, it.kind) == (CUBLAS, gpu, shape, "measured")
    ]
    return found[-1] if found else None


# The CSV file.


COLUMNS = tuple("size" if it.name == "shape" else it.name for it in fields(Point))


def append(path: Path, points: Sequence[Point]) -> None:
    """Add lines to the CSV file; a new file gets its header first. Raises ``WriteError``."""
    rows = ([getattr(point, it.name) for it in fields(Point)] for point in points)
    append_lines(path, COLUMNS, [dict(zip(COLUMNS, map(_cell, row), strict=True)) for row in rows])


def _cell(value: object) -> object:
    if isinstance(value, Shape):
        return label(value)
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def read(path: Path) -> list[Point]:
    """Return the points of a CSV file; incomplete lines are omitted. Raise ``CommandError`` for another kind of
    file."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            header = next(rows, None)
            if header is None:
                return []
            if tuple(header) != COLUMNS:
                raise CommandError(f"{shown(path)} is no file of gemm-lessons bench; name another one with --csv")
            return [point for row in rows if (point := _parse(row)) is not None]
    except (UnicodeDecodeError, csv.Error):
        raise CommandError(f"{shown(path)} is no CSV file; name another one with --csv") from None
    except OSError as error:
        raise ReadError(path, error) from None


def _parse(row: Sequence[str]) -> Point | None:
    if len(row) != len(COLUMNS):
        return None
    cells = dict(zip(COLUMNS, row, strict=True))

    def number(name: str) -> float | None:
        return float(cells[name]) if cells[name] else None

    try:
        return Point(
            date=cells["date"],
            kind="measured" if cells["kind"] == "measured" else "estimated",
            gpu=cells["gpu"],
            series=cells["series"],
            kernel=cells["kernel"],
            shape=shape_of(cells["size"]),
            time_us=float(cells["time_us"]),
            q1_us=number("q1_us"),
            q3_us=number("q3_us"),
            launches=int(cells["launches"]),
            gflops=float(cells["gflops"]),
            of_cublas=number("of_cublas"),
            limiter=cells["limiter"],
            flop_per_byte=number("flop_per_byte"),
            clock_mhz=int(cells["clock_mhz"]) if cells["clock_mhz"] else None,
            driver=cells["driver"],
            cublas=cells["cublas"],
            compiler=cells["compiler"],
        )
    except ValueError:
        return None
