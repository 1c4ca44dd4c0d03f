"""Numbers and quotes in the lessons' texts, tied to what produces them (lessons/measured/README.md).

``python -m checks.course.lesson_numbers`` compares, ``--write`` fills the tables in. Exit code 1: something differs.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from checks.course.kernel import Kernel
from gemm_lessons.compiler.compile import occupancy
from gemm_lessons.course.expression import Expression, Number
from gemm_lessons.course.folder import Course, packaged_course
from gemm_lessons.course.lesson import Lesson, Shape, Tile
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.problem import Problem
from gemm_lessons.hardware.sheets import find_gpu
from gemm_lessons.launch import METRICS
from gemm_lessons.report.run import show_outcome
from gemm_lessons.run.pipeline import RunRequest, run_lesson
from gemm_lessons.run.simulated import Simulated
from gemm_lessons.simulator import Simulator

COURSE = Course(packaged_course().root)
GPU = "h200"
SEED = 20261121
TABLE = re.compile(r"<!-- numbers: (.*?) -->\n(.*?)<!-- /numbers -->", re.DOTALL)
QUOTE = re.compile(r"<!-- pitfall: (\w+) -->\s*```\w*\n(.*?)```", re.DOTALL)
FIELDS = ("registers", "shared_bytes", "spill_bytes")  # of a variant
WAYS = ("cold", "warm")  # of measuring; see checks/course/measure.py
UNITS = {
    "tflops": ("tflops", 1.0, 1),
    "percent": ("percent_of_cublas", 1.0, 1),
    "ms": ("median_us", 1e-3, 3),
    "us": ("median_us", 1.0, 1),
}


def lesson_of(number: str) -> Lesson:
    return load_lesson(COURSE.lessons_dir / COURSE.resolve(number))


def pitfall(lesson: Lesson, name: str) -> Kernel:
    """The solution with the edits of ``[name]`` in the lesson's pitfalls.toml."""
    entry = tomllib.loads((lesson.directory / "pitfalls.toml").read_text())[name]
    source = lesson.solution_path.read_text()
    for find, instead in entry.get("edits", []):
        assert source.count(find) == 1, f"{lesson.name}: pitfall {name}: {source.count(find)} places have {find!r}"
        source = source.replace(find, instead)
    return Kernel(f"{lesson.name}: {name}", retiled(lesson, entry.get("tile", {})), source)


def retiled(lesson: Lesson, sizes: Mapping[str, int]) -> Lesson:
    assert sizes.keys() <= lesson.tile.defines.keys(), f"{lesson.name} has no tile sizes {sizes}"
    return lesson.with_tile(Tile(tuple({**lesson.tile.defines, **sizes}.items())))


def column(heading: str) -> Kernel:
    """``04``, ``04 BK=16 TM=4`` or ``03 missing_barrier``."""
    number, *rest = heading.split()
    lesson = lesson_of(number)
    if rest and "=" not in rest[0]:
        return pitfall(lesson, rest[0])
    sizes = {name: int(size) for name, size in (word.split("=") for word in rest)}
    return Kernel.solution(retiled(lesson, sizes))


@cache
def facts(heading: str, shape: Shape) -> Mapping[str, Number]:
    """Everything an expression may name, for one column at one shape."""
    kernel = column(heading)
    lesson, compiled = kernel.lesson, kernel.compiled()
    grid = lesson.grids(shape)[0]
    launched = Simulator().launch(
        compiled, grid, Problem(lesson.data, shape, SEED).trial().arguments(lesson.launches[0].parameters)
    )
    assert launched.fault is None, f"{heading}: {launched.fault}"
    fit = occupancy(compiled.resources, grid.threads, grid.dynamic_shared, find_gpu(GPU))
    return {
        **{short: launched.counters.get(short) for short in METRICS},
        **{name: getattr(compiled.resources, name) for name in FIELDS},
        **lesson.names(shape),
        "threads": grid.threads,
        "blocks_per_sm": fit.blocks_per_sm,
        "warps_per_sm": fit.warps,
        "occupancy": 100 * fit.fraction,
    }


def shown(value: Number) -> str:
    """Whole numbers in full, others with one decimal from 10 on, else at most four: 1,081,344; 16.5; 0.0625."""
    digits = 0 if value >= 1000 else 1 if value >= 10 else 4
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def row_of(values: Iterable[str]) -> str:
    return "| " + " | ".join(values) + " |\n"


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; all columns but the first are numbers."""
    rule = "|" + "---|" + "---:|" * (len(head) - 1) + "\n"
    return row_of(head) + rule + "".join(row_of(row) for row in rows)


def simulated(words: list[str], head: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
    shape = Shape(*(int(size) for size in words[0].split(",")))
    for row in rows:
        expression = re.findall(r"`(.*?)`", row[0])[-1]
        yield [row[0], *(_value(expression, facts(heading, shape)) for heading in head[1:])]


def _value(expression: str, names: Mapping[str, Number]) -> str:
    return shown(Expression.parse(expression, names).value(names))


def measured(file: str, words: list[str], head: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
    """``words`` are a unit, with a way of measuring before it if all columns have the same; else each column's heading
    starts with its size and has the way in it: ``1024 cold``."""
    data = json.loads((COURSE.lessons_dir / "measured" / file).read_text())["rows"]
    *way, unit = words
    field, scale, digits = UNITS[unit]
    by_place = {(entry["kernel"], entry["size"]): entry for entry in data}
    for row in rows:
        values = []
        for heading in head[1:]:
            if heading in FIELDS:
                values.append(str(by_place[row[0], 4096][heading]))
            else:
                size, *own = heading.split()
                [how] = way or own
                assert how in WAYS, f"{how}: {' or '.join(WAYS)}?"
                values.append(f"{by_place[row[0], int(size)][how][field] * scale:.{digits}f}")
        yield [row[0], *values]


def profiled(words: list[str], head: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
    data = json.loads((COURSE.lessons_dir / "measured" / "h200_ncu.json").read_text())["rows"]
    by_place = {(entry["kernel"][:2], entry["size"]): entry for entry in data}
    for row in rows:
        expression = re.findall(r"`(.*?)`", row[0])[-1]
        yield [row[0], *(_value(expression, by_place[heading, int(words[0])]) for heading in head[1:])]


def filled(source: str, table: str) -> str:
    """The table with its cells computed. ``source`` is what the comment says: ``simulator 256,256,64``."""
    kind, *words = source.split()
    lines = table.strip().splitlines()
    head, rows = cells(lines[0]), [cells(line) for line in lines[2:]]
    match kind:
        case "simulator":
            done = simulated(words, head, rows)
        case "h200":
            done = measured("h200.json", words, head, rows)
        case "ncu":
            done = profiled(words, head, rows)
        case "variants":
            done = measured("h200_variants.json", words, head, rows)
        case _:
            raise AssertionError(f"numbers: {source}: simulator, h200 or variants?")
    return table_of(head, done)


def texts() -> list[Path]:
    return sorted(COURSE.lessons_dir.glob("*_*/README.md"))


def rewritten(text: str) -> str:
    return TABLE.sub(lambda m: f"<!-- numbers: {m[1]} -->\n{filled(m[1], m[2])}<!-- /numbers -->", text)


def printed(lesson: Lesson, name: str) -> str:
    """What ``gemm-lessons run`` prints for a pitfall, at 80 columns."""
    from rich.console import Console

    from gemm_lessons.report.console import THEME

    variant = pitfall(lesson, name)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(variant.source)
        request = RunRequest(COURSE, variant.lesson, path, Simulated(), find_gpu(GPU), seed=SEED, beside=False)
        outcome = run_lesson(request)
    console = Console(file=StringIO(), width=80, theme=THEME, highlight=False, markup=False, emoji=False)
    show_outcome(console, outcome, None, "")
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def squeezed(text: str) -> str:
    """Without white space, so that line breaks do not matter."""
    return re.sub(r"\s+", "", text)


def without_numbers(text: str) -> str:
    return re.sub(r"\d[\d,.]*", "#", text)


def missing_quotes(readme: Path, numbers: bool = True) -> list[str]:
    """The quoted lines that the tool does not print; without ``numbers``, not even with other numbers in them."""
    told = squeezed if numbers else lambda text: without_numbers(squeezed(text))
    lesson = load_lesson(readme.parent)
    missing = []
    for name, block in QUOTE.findall(readme.read_text()):
        output = told(printed(lesson, name))
        lines = [line for line in block.splitlines() if line.strip() and line.strip() != "..."]
        missing += [f"{lesson.name}: {name}: {line}" for line in lines if told(line) not in output]
    return missing


def main() -> int:
    differs = 0
    for readme in texts():
        text = readme.read_text()
        new = rewritten(text)
        if new != text:
            differs += 1
            print(f"{readme}: numbers differ")
            if "--write" in sys.argv:
                readme.write_text(new)
        for line in missing_quotes(readme):
            differs += 1
            print(f"not printed: {line}")
    return 1 if differs else 0


if __name__ == "__main__":
    raise SystemExit(main())
