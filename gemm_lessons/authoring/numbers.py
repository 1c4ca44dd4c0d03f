"""Numbers in a lesson's text, tied to their sources (``lessons/measured/README.md`` lists the sources).

A table between ``<!-- numbers: SOURCE -->`` and ``<!-- /numbers -->`` is computed, never typed: from the simulator's
counters of a column's kernel, or from the stored readings of a GPU.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gemm_lessons.course import CommandError, Course, Lesson, LessonError, load_pitfalls, resized
from gemm_lessons.devices import Binaries, Simulated, Task
from gemm_lessons.engine import find_gpu
from gemm_lessons.engine.arguments import Expression, ExpressionError, Number
from gemm_lessons.engine.compiler import Compiled, compile_source, disassemble_ahead
from gemm_lessons.engine.hardware import occupancy_of
from gemm_lessons.engine.sass import BANK, OTHER, THREE, reads
from gemm_lessons.gemm import LAYOUTS, Problem, Shape

GPU = "h200"  # the GPU of occupancies in texts
SEED = 20261121
TABLE = re.compile(r"<!-- numbers: (.*?) -->\n(.*?)<!-- /numbers -->", re.DOTALL)
FIELDS = ("registers", "shared_bytes", "spill_bytes")  # of a variant
COLUMNS = (*FIELDS, THREE, BANK, OTHER)  # allowed in measured files
EVERY_SIZE = 0  # of a kernel without a size, such as a loop on registers
LIBRARY = ("cublas", "cutlass", "leimao", "torch", "loop", "fed")  # rows that are not lessons
WAYS = ("cold", "warm")  # of measuring; see lessons/measured/README.md
UNITS = {
    "tflops": ("tflops", 1.0, 1),
    "percent": ("percent_of_cublas", 1.0, 1),
    "ms": ("median_us", 1e-3, 3),
    "us": ("median_us", 1.0, 1),
    "gain": ("gain", 1.0, 2),
    "loop": ("percent_of_loop", 1.0, 1),
    "answers": ("answers", 1.0, 0),
}
FILES = {"h200": "h200.json", "ncu": "h200_ncu.json", "variants": "h200_variants.json",
         "layouts": "h200_layouts.json", "epilogues": "h200_epilogues.json", "halves": "h200_halves.json",
         "precision": "h200_halves.json", "mma": "h200_mma.json", "errors": "h200_mma.json",
         "types": "h200_types.json", "pairs": "h200_pairs.json", "pairs_errors": "h200_pairs.json",
         "split": "h200_split.json", "anchors": "h200_anchors.json",
         "pipes": "h200_pipes.json", "power": "h200_power.json", "two_warps": "h200_two_warps.json",
         "squares": "h200_squares.json", "hopper": "h200_hopper.json", "roles": "h200_roles.json",
         "registers": "h200_registers.json", "persistent": "h200_persistent.json",
         "clusters": "h200_clusters.json", "ragged": "h200_ragged.json",
         "ragged_floats": "h200_ragged_floats.json",
         "fp8": "h200_fp8.json", "fp8_errors": "h200_fp8.json", "int8": "h200_int8.json",
         "tf32": "h200_tf32.json",
         "ozaki": "h200_ozaki.json", "ozaki_errors": "h200_ozaki.json"}  # fmt: skip
PROFILED = ("ncu", "precision", "errors", "pipes", "power", "fp8_errors", "pairs_errors", "ozaki_errors")
SOURCES = f"simulator M,N,K, machinecode M,N,K, {', '.join(FILES)}: see lessons/measured/README.md"


class Numbers:
    """The sources of a course's numbers; counts are memoised."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._facts: dict[tuple[str, Shape], Mapping[str, Number]] = {}
        self._stored: dict[str, Any] = {}

    def rewritten(self, text: str) -> str:
        """Return a text with all its tables filled in. Raise ``LessonError`` for a table that cannot be filled."""
        return TABLE.sub(lambda m: f"<!-- numbers: {m[1]} -->\n{self.filled(m[1], m[2])}<!-- /numbers -->", text)

    def filled(self, source: str, table: str) -> str:
        """Return the table with computed cells. ``source`` is the comment's text: ``simulator 256,256,64``."""
        kind, *words = source.split() or [""]
        lines = table.strip().splitlines()
        if len(lines) < 2 or any(len(cells(line)) != len(cells(lines[0])) for line in lines):
            raise LessonError(f"numbers: {source}: no table with a head, a rule and as many cells in every row")
        head, rows = cells(lines[0]), [cells(line) for line in lines[2:]]
        try:
            match kind:
                case "simulator":
                    done = self._simulated(words, head, rows)
                case "machinecode":
                    done = self._in_machine_code(words, head, rows)
                case _ if kind in PROFILED:
                    done = self._profiled(kind, words, head, rows)
                case _ if kind in FILES:
                    done = self._measured(kind, words, head, rows)
                case _:
                    raise LessonError(f"numbers: {source}: {kind!r} is not a source; write {SOURCES}")
            return table_of(head, done)
        except (CommandError, ExpressionError, LookupError, ValueError) as error:
            what = f"{error} is not there" if isinstance(error, LookupError) else str(error)
            raise LessonError(f"numbers: {source}: {what}; the source is {SOURCES}") from None

    def _simulated(self, words: list[str], head: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
        shape = _shape(words)
        self._disassemble([heading for heading in head[1:] if (heading, shape) not in self._facts], shape)
        for row in rows:
            expression = _expression(row)
            yield [row[0], *(_value(expression, self.facts(heading, shape)) for heading in head[1:])]

    def _disassemble(self, headings: Iterable[str], shape: Shape) -> None:
        """Disassemble the kernels of these columns with one call: counting finds the text of each in the cache."""
        disassemble_ahead([kernel for heading in headings for kernel in self._compiled(heading, shape)[1]])

    def _in_machine_code(self, words: list[str], head: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
        """Yield rows; a row is a kernel, as a column of ``simulator`` is."""
        shape = _shape(words)
        self._disassemble([row[0] for row in rows], shape)
        for row in rows:
            _, (kernel, *_) = self._compiled(row[0], shape)
            found = {name: getattr(kernel.resources, name) for name in FIELDS} | reads(kernel.sass)
            yield [row[0], *(str(found[heading]) for heading in head[1:])]

    def facts(self, heading: str, shape: Shape) -> Mapping[str, Number]:
        """Return the names for expressions, for a column's kernel at one shape: ``04``, ``04 BK=16`` or ``03
        missing_barrier``. Raise ``LessonError``."""
        if (heading, shape) not in self._facts:
            self._facts[heading, shape] = self._count(heading, shape)
        return self._facts[heading, shape]

    def _count(self, heading: str, shape: Shape) -> Mapping[str, Number]:
        lesson, kernels = self._compiled(heading, shape)
        shape = _in_layout_of(lesson, shape)
        grids = lesson.grids(shape)
        problem = Problem(lesson.data, shape, SEED)
        parameters = tuple(launch.parameters for launch in lesson.launches)
        task = Task(Binaries(kernels, None), grids, parameters, problem.trial, 0)
        launched = Simulated().launch(task, problem.trial(), counting=True)
        errors = (it for it in launched.findings if it.severity == "error")
        if (wrong := launched.fault or next(errors, None)) is not None:
            raise LessonError(f"numbers: column {heading} faults at {shape}: {wrong.message}")
        resources, grid = kernels[0].resources, grids[0]
        fit = occupancy_of(resources, grid.threads, grid.dynamic_shared, find_gpu(GPU))
        return {
            **launched.counters.numbers(),
            **{name: getattr(resources, name) for name in FIELDS},
            "shared_bytes": resources.shared_bytes + grid.dynamic_shared,
            **lesson.names(shape),
            "threads": grid.threads,
            "blocks_per_sm": fit.blocks_per_sm,
            "warps_per_sm": fit.warps,
            "occupancy": 100 * fit.fraction,
        }

    def _compiled(self, heading: str, shape: Shape) -> tuple[Lesson, tuple[Compiled, ...]]:
        """Return a column's lesson as it is launched at this shape, and its kernels."""
        lesson, source = self._column(heading)
        shape = _in_layout_of(lesson, shape)
        lesson.allow(shape)
        lesson = lesson.at(shape)
        compiled = [
            compile_source(
                source,
                path=str(lesson.solution_path),
                entry=launch.entry,
                defines=lesson.tile.defines,
                include_dirs=lesson.include_dirs,
                arch=self.course.architecture_of(lesson),
                options=lesson.options,
            )
            for launch in lesson.launches
        ]
        kernels = tuple(it for it in compiled if isinstance(it, Compiled))
        if len(kernels) < len(compiled):
            raise LessonError(
                f"numbers: column {heading} does not compile; see it: gemm-lessons run {lesson.number:02}"
            )
        return lesson, kernels

    def _column(self, heading: str) -> tuple[Lesson, str]:
        number, *rest = heading.split() or [""]
        lesson = self.course.lesson(number)
        path = self.course.solution(lesson)
        if path is None:
            raise LessonError(f"numbers: column {heading}: {lesson.name} has no solution.cu")
        solution = path.read_text(encoding="utf-8")
        if rest and "=" not in rest[0]:
            pitfalls = load_pitfalls(self.course.kept_back(lesson, "pitfalls.toml"))
            if rest[0] not in pitfalls:
                raise LessonError(f"numbers: column {heading}: {lesson.name}/pitfalls.toml has no [{rest[0]}]")
            pitfall = pitfalls[rest[0]]
            return pitfall.lesson(lesson), pitfall.source(solution)
        sizes = [re.fullmatch(r"(\w+)=(\d+)", word) for word in rest]
        if not all(sizes):
            raise ValueError(f"column {heading}: write tile sizes like {number} BK=16")
        return resized(lesson, {size[1]: int(size[2]) for size in sizes if size}), solution

    def _measured(self, kind: str, words: list[str], head: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
        """Yield rows of readings. ``words`` are a unit, preceded by the way of measuring if all columns share one; else
        each column's heading starts with its size and includes the way: ``1024 cold``."""
        *way, unit = words or [""]
        if unit not in UNITS:
            raise ValueError(f"{unit or 'nothing'} is not a unit: {', '.join(UNITS)}")
        field, scale, digits = UNITS[unit]
        by_place = {(entry["kernel"], entry["size"]): entry for entry in self._rows(kind)}
        for row in rows:
            values = []
            kernel = self._stored_name(row[0])
            for heading in head[1:]:
                if heading in COLUMNS:
                    found = by_place.get((kernel, 4096)) or by_place[kernel, EVERY_SIZE]
                    values.append(str(found.get(heading, "")))
                else:
                    size, *own = heading.split()
                    how = " ".join(way or own)
                    if how not in WAYS:
                        raise ValueError(f"{how or 'nothing'} is not a way of measuring: {' or '.join(WAYS)}")
                    place = (kernel, int(size) if size.isdigit() else size)
                    found = by_place[place] if place in by_place else by_place[kernel, EVERY_SIZE]
                    values.append(f"{found[how][field] * scale:.{digits}f}")
            yield [row[0], *values]

    def _profiled(self, kind: str, words: list[str], head: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
        by_place = {(entry["kernel"], entry["size"]): entry for entry in self._rows(kind)}
        for row in rows:
            expression = _expression(row)
            kernels = map(self._stored_name, head[1:])
            yield [row[0], *(_value(expression, by_place[kernel, int(words[0])]) for kernel in kernels)]

    def _stored_name(self, label: str) -> str:
        """Return the stored readings' name of a kernel in a text: ``05_thread_tile`` or ``05 BK16`` without the number,
        which may change. Raise ``CommandError`` for a lesson that the course does not have."""
        lesson, *change = label.split()
        return label if lesson in LIBRARY else " ".join([self.course.resolve(lesson)[3:], *change])

    def _rows(self, kind: str) -> list[dict[str, Any]]:
        path = self.course.lessons_dir / "measured" / FILES[kind]
        if kind not in self._stored:
            try:
                self._stored[kind] = json.loads(path.read_text(encoding="utf-8"))["rows"]
            except OSError:
                raise LessonError(f"numbers: {kind}: {path} is not there") from None
        rows: list[dict[str, Any]] = self._stored[kind]
        return rows


def _in_layout_of(lesson: Lesson, shape: Shape) -> Shape:
    """Return the shape in the only layout of a lesson that has one."""
    layouts = lesson.shapes.layouts
    return replace(shape, layout=layouts[0]) if len(layouts) == 1 else shape


def _shape(words: Sequence[str]) -> Shape:
    sizes = re.fullmatch(r"(\d+),(\d+),(\d+)( [NT]{2})?", " ".join(words))
    if sizes is None:
        raise ValueError("a shape is wanted, like simulator 128,128,64")
    return Shape(*map(int, sizes.groups()[:3]), layout=(sizes[4] or LAYOUTS[0]).strip())


def _expression(row: Sequence[str]) -> str:
    found = re.findall(r"`(.*?)`", row[0])
    if not found:
        raise ValueError(f'the row "{row[0]}" ends with no `expression`')
    return str(found[-1])


def _value(expression: str, names: Mapping[str, Number]) -> str:
    return written(Expression.parse(expression, names).value(names))


def written(value: Number) -> str:
    """Format whole numbers in full, others with one decimal from 10 on, else at most four: 1,081,344; 16.5; 0.0625."""
    digits = 0 if value >= 1000 else 1 if value >= 10 else 4
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cells(line: str) -> list[str]:
    """Return the cells of a table's row in Markdown."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are numbers."""
    rule = "|" + "---|" + "---:|" * (len(head) - 1) + "\n"
    return _row(head) + rule + "".join(_row(row) for row in rows)


def _row(values: Iterable[str]) -> str:
    return "| " + " | ".join(values) + " |\n"
