"""Points of a benchmark: the record, its CSV file, and groups of kernels that multiply the same type of numbers."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from gemm_lessons.course import CommandError, ReadError, shown, writing
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import LAYOUTS, DataSpec, Shape

CUBLAS = "cuBLAS"
FP32 = "fp32"

Kind = Literal["measured", "estimated"]


def append_lines(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Append rows to the file; a new file gets its header first. Raise ``WriteError``."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            file.seek(0, os.SEEK_END)
            if not file.tell():
                writer.writeheader()
            elif not _ends_with_newline(path):
                file.write("\n")  # the last line was incomplete when the command stopped
            writer.writerows(rows)


def read_lines(path: Path, command: str, headers: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    """Return the complete lines of a file of ``command``. Raise ``CommandError`` if it has none of the ``headers``."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            header = tuple(next(rows, headers[0]))
            if header not in headers:
                raise CommandError(
                    f"{shown(path)} is not a file of gemm-lessons {command}; name another one with --csv"
                )
            return [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    except (UnicodeDecodeError, csv.Error):
        raise CommandError(f"{shown(path)} is not a CSV file; name another one with --csv") from None
    except OSError as error:
        raise ReadError(path, error) from None


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


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
    kernel: str  # fingerprint of the source and everything compiled with it; for cuBLAS the type, such as fp16
    shape: Shape
    time_us: float = 0.0
    q1_us: float | None = None  # quartiles of the measured times
    q3_us: float | None = None
    launches: int = 0
    gflops: float = 0.0
    of_cublas: float | None = None  # speed / cuBLAS's speed in the same run
    limiter: str = ""  # of an estimate
    flop_per_byte: float | None = None
    clock_mhz: int | None = None  # the lowest seen while timing
    driver: str = ""
    cublas: str = ""
    compiler: str = ""
    watts: float | None = None  # the median while timing

    @property
    def scatter(self) -> float:
        """Return the interquartile range of the times / the median; 0 where it is unknown."""
        return (self.q3_us - self.q1_us) / self.time_us if self.q1_us and self.q3_us else 0.0

    @property
    def key(self) -> tuple[str, ...]:
        """Return the fields that identify a point."""
        return (self.kind, self.gpu, self.series, self.kernel, label(self.shape), self.compiler)


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
        raise ValueError(f"{text!r} is not a shape")
    m, n, k = found * (3 // len(found))
    return Shape(m, n, k, layout=layout or LAYOUTS[0])


# Number types.

TYPES = {  # of a lesson's factors -> as tables and plots write it, in the order of groups
    "float32": FP32,
    "tf32": "tf32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3": "fp8",
    "float8_e5m2": "fp8",
    "int8": "int8",
    "uint8": "int8",
    "float64": "fp64",
}
ORDER = tuple(dict.fromkeys(TYPES.values()))
HALVES = ("fp16", "bf16")  # one group: tensor cores multiply both at the same rate


def type_of(data: DataSpec) -> str:
    """Return the number type of the factors, such as ``fp16``."""
    name = data.factors[0].element.name if data.factors else "float32"
    return TYPES.get(name, name)


@dataclass(frozen=True)
class Line:
    """One row of a table and one line of a plot: a kernel, or cuBLAS in one number type."""

    name: str
    type: str
    points: Mapping[Shape, Point]

    @property
    def is_cublas(self) -> bool:
        """Tell whether this is the library."""
        return self.name.startswith(CUBLAS)


@dataclass(frozen=True)
class Group:
    """Kernels of the same number type in the course's order, then cuBLAS in that type."""

    types: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points of all lines."""
        return tuple(point for line in self.lines for point in line.points.values())

    @property
    def title(self) -> str:
        """Return ``fp32``, or ``fp16, bf16``."""
        return ", ".join(self.types)


def grouped(points: Sequence[Point], types: Mapping[str, str]) -> tuple[Group, ...]:
    """Group kernels by number type. ``types``: kernel -> type, in the order of lines; empty without points."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name in types:
        found.setdefault(_family(types[name]), []).append(name)
    for point in points:
        if point.series == CUBLAS:
            found.setdefault(_family(point.kernel or FP32), [])
    groups = []
    for family in sorted(found, key=lambda family: [*ORDER, family[0]].index(family[0])):
        lines = [Line(name, types[name], _at(points, name)) for name in found[family]]
        libraries = {
            of: here
            for of in family
            if (here := {it.shape: it for it in points if it.series == CUBLAS and (it.kernel or FP32) == of})
        }
        shown_types = tuple(of for of in family if of in libraries or of in {line.type for line in lines})
        for of, here in libraries.items():
            lines.append(Line(CUBLAS if len(shown_types) == 1 else f"{CUBLAS} {of}", of, here))
        groups.append(Group(shown_types, tuple(lines)))
    return tuple(groups)


def _family(of: str) -> tuple[str, ...]:
    return HALVES if of in HALVES else (of,)


def _at(points: Iterable[Point], name: str) -> dict[Shape, Point]:
    return {point.shape: point for point in points if point.series == name}


# The CSV file.

COLUMNS = tuple("size" if it.name == "shape" else it.name for it in fields(Point))
OLDER = COLUMNS[:-1]  # files of version 1.0 lack the power
TEXTS = ("date", "gpu", "series", "kernel", "limiter", "driver", "cublas", "compiler")
NEEDED: Mapping[str, type] = {"time_us": float, "launches": int, "gflops": float}
OTHERS: Mapping[str, type] = {
    "q1_us": float, "q3_us": float, "of_cublas": float, "flop_per_byte": float, "clock_mhz": int, "watts": float,
}  # fmt: skip


def append(path: Path, points: Sequence[Point]) -> None:
    """Add lines to the CSV file, with its columns; a new file gets its header first. Raises ``WriteError``."""
    columns = OLDER if _header(path) == OLDER else COLUMNS
    values = ([getattr(point, it.name) for it in fields(Point)] for point in points)
    rows = [dict(zip(COLUMNS, map(_cell, row), strict=True)) for row in values]
    append_lines(path, columns, [{name: row[name] for name in columns} for row in rows])


def _header(path: Path) -> tuple[str, ...]:
    """Return the columns of a CSV file; none where there is no file yet."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return tuple(next(csv.reader(file), ()))
    except OSError:
        return ()


def _cell(value: object) -> object:
    if isinstance(value, Shape):
        return label(value)
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def read(path: Path) -> list[Point]:
    """Return the points of a CSV file without incomplete lines. Raise ``CommandError`` for another kind of file."""
    return [point for cells in read_lines(path, "bench", (COLUMNS, OLDER)) if (point := _parse(cells)) is not None]


def _parse(cells: Mapping[str, str]) -> Point | None:
    """Return a line of the file; None for an incomplete line."""
    found: dict[str, Any] = {name: cells[name] for name in TEXTS}
    try:
        found |= {name: kind(cells[name]) for name, kind in NEEDED.items()}
        found |= {name: kind(cells[name]) if cells.get(name) else None for name, kind in OTHERS.items()}
        kind: Kind = "measured" if cells["kind"] == "measured" else "estimated"
        return Point(kind=kind, shape=shape_of(cells["size"]), **found)
    except ValueError:
        return None
