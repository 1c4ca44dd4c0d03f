"""Reading ``lesson.toml``: every mistake in the file is named by file, line and key, with what to do about it.

lesson.toml  --load_lesson-->  Lesson(tile, data, launches, shapes, gates, todos)

Most lessons launch one kernel on A, B and C: ``[launch]`` and ``[kernel]`` say it all. Others have ``[[launches]]``,
one after the other, each with its entry, parameters, grid and block, and ``[buffers.NAME]`` for each array that is not
plain A, B or C: type, shape, order, role, fill.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from gemm_lessons.course.data import HELD, SCALARS, SIZES, BufferSpec, DataSpec, Fill, Order, Role
from gemm_lessons.course.expression import Expression, ExpressionError, closest
from gemm_lessons.course.lesson import (
    RESOURCES,
    Gate,
    LaunchSpec,
    Lesson,
    LessonError,
    Shape,
    Shapes,
    Tile,
    Todo,
)
from gemm_lessons.elements import ELEMENTS

LESSON_NAME = re.compile(r"(\d{2})_([a-z0-9][a-z0-9_]*)")
MAX_THREADS = 1024  # per block, every compute capability so far (CUDA programming guide, "Compute Capabilities")

ARCHITECTURE = "sm_90"  # what a course counts on that does not say
TYPES = ("a", "b", "c", "accumulate")  # of [kernel]
ACCUMULATORS = ("float64", "float32", "float16", "int32")
Where = tuple[str | int, ...]  # a key's path in the file, such as ("gates", 0, "value")


def load_lesson(directory: Path) -> Lesson:
    """Read ``directory/lesson.toml``.

    Raises ``LessonError`` with file, line, key and remedy when the file is missing, unreadable or wrong in any way.
    """
    path = directory / "lesson.toml"
    if not LESSON_NAME.fullmatch(directory.name):
        raise LessonError(
            f"{directory}: a lesson's folder is named like 03_block_tile (two digits, _, lower-case name)"
        )
    text, raw = _read(path, "every lesson folder needs a lesson.toml")
    return _Reader(path, text).lesson(directory, raw)


def load_architecture(lessons: Path) -> str:
    """The architecture that a course counts on, from ``course.toml`` in its folder of lessons: ``sm_90`` without one.

    Raises ``LessonError`` like ``load_lesson``.
    """
    path = lessons / "course.toml"
    if not path.exists():
        return ARCHITECTURE
    text, raw = _read(path, "restore it")
    return _Reader(path, text).architecture(raw)


def _read(path: Path, without: str) -> tuple[str, dict[str, Any]]:
    """A TOML file as text and parsed; ``without``: what to do when it is missing."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LessonError(f"{path}: not found; {without}") from None
    except OSError as error:
        raise LessonError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise LessonError(f"{path}: not UTF-8 text (byte {error.start}); restore the file") from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else max(1, len(text.splitlines()))  # else "at end of document"
        what = re.sub(r" \(at .*", "", str(error))
        raise LessonError(f"{path}:{line}: not valid TOML: {what}; correct the line or restore the file") from None


class _Reader:
    """Turns the parsed TOML into records; knows where every key stands, for messages."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()
        self.several = False  # launches, in [[launches]]

    def lesson(self, directory: Path, raw: dict[str, Any]) -> Lesson:
        from gemm_lessons.launch import METRICS  # --help reads no lesson

        tables = ("tile", "launch", "launches", "kernel", "buffers", "shapes", "gates", "todo")
        self.known((), raw, ("title", "idea", *tables))
        tile = self.tile(self.table((), raw, "tile", required=False))
        names = (*SIZES, *tile.defines)
        launches = self.launches(raw, names)
        lesson = Lesson(
            directory=directory,
            title=self.string((), raw, "title"),
            idea=self.string((), raw, "idea"),
            tile=tile,
            data=self.data(raw, launches, tile),
            launches=launches,
            shapes=self.shapes(self.table((), raw, "shapes")),
            gates=tuple(
                self.gate(("gates", i), table, (*names, *METRICS, *RESOURCES))
                for i, table in enumerate(self.tables(raw, "gates"))
            ),
            todos=tuple(self.todo(("todo", i), table) for i, table in enumerate(self.tables(raw, "todo"))),
        )
        numbers = [todo.number for todo in lesson.todos]
        if numbers != list(range(1, len(numbers) + 1)):
            raise self.wrong(("todo",), f"the numbers are {numbers}; number the TODOs 1, 2, 3, ... in order")
        self.try_launch(lesson)
        return lesson

    def architecture(self, raw: dict[str, Any]) -> str:
        from gemm_lessons.hardware.sheets import OLDEST_ARCH  # only who compiles asks

        self.known((), raw, ("architecture",))
        name = self.string((), raw, "architecture")
        number = re.fullmatch(r"sm_(\d{2,3})[af]?", name)
        if number is None or int(number[1]) < OLDEST_ARCH:
            raise self.wrong(
                ("architecture",),
                f"{name!r} is none that the compiler knows; write sm_{OLDEST_ARCH} or a later one, like {ARCHITECTURE}",
            )
        return name

    def try_launch(self, lesson: Lesson) -> None:
        for shape in (*lesson.shapes.check, lesson.shapes.count):
            for number, grid in enumerate(lesson.grids(shape)):
                if grid.threads > MAX_THREADS:
                    where = ("launches", number, "block") if self.several else ("launch", "block")
                    raise self.wrong(where, f"{grid.threads} threads per block; a block holds at most {MAX_THREADS}")
            try:
                lesson.data.lay_out(shape.names)
            except ExpressionError as error:
                raise LessonError(f"{self.path}: [buffers] at M, N, K = {shape}: {error}") from None

    # One method per table.

    def tile(self, raw: dict[str, Any]) -> Tile:
        sizes = []
        for name in raw:
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or name in SIZES:
                raise self.wrong(("tile", name), "a tile size is named in upper case, like BM, and not M, N or K")
            sizes.append((name, self.integer(("tile",), raw, name)))
        return Tile(tuple(sizes))

    def launches(self, raw: dict[str, Any], names: Sequence[str]) -> tuple[LaunchSpec, ...]:
        keys = ("grid", "block", "dynamic_shared")
        self.several = "launches" in raw
        if not self.several:
            launch, kernel = self.table((), raw, "launch"), self.table((), raw, "kernel")
            self.known(("launch",), launch, keys)
            self.known(("kernel",), kernel, ("entry", "parameters", *TYPES, "formula"))
            return (self.one(("kernel",), kernel, ("launch",), launch, names),)
        if "launch" in raw:
            raise self.wrong(("launch",), "is for a lesson of one launch; here are [[launches]], too: keep one of them")
        found = []
        for number, launch in enumerate(self.tables(raw, "launches")):
            where = ("launches", number)
            self.known(where, launch, ("entry", "parameters", *keys))
            found.append(self.one(where, launch, where, launch, names))
        if not found:
            raise self.wrong(("launches",), "is empty; a lesson has at least one launch")
        return tuple(found)

    def one(
        self, kernel_at: Where, kernel: dict[str, Any], at: Where, launch: dict[str, Any], names: Sequence[str]
    ) -> LaunchSpec:
        return LaunchSpec(
            self.string(kernel_at, kernel, "entry"),
            self.parameters(kernel_at, kernel),
            self.expressions(at, launch, "grid", names),
            self.expressions(at, launch, "block", names),
            self.expression((*at, "dynamic_shared"), launch.get("dynamic_shared", "0"), names),
        )

    def expressions(self, where: Where, raw: dict[str, Any], key: str, names: Sequence[str]) -> tuple[Expression, ...]:
        values = self.present(where, raw, key)
        if not isinstance(values, list) or not 1 <= len(values) <= 3:
            example = '["M", "N"]' if key == "shape" else '["ceil_div(N, BN)", "ceil_div(M, BM)"]'
            raise self.wrong((*where, key), f"must be a list of one to three expressions, like {example}")
        return tuple(self.expression((*where, key), value, names) for value in values)

    def parameters(self, where: Where, raw: dict[str, Any]) -> tuple[str, ...]:
        parameters = self.present(where, raw, "parameters")
        if not isinstance(parameters, list) or not all(isinstance(name, str) for name in parameters):
            raise self.wrong((*where, "parameters"), 'must be a list of names, like ["A", "B", "C", "M", "N", "K"]')
        if len(set(parameters)) < len(parameters):
            raise self.wrong((*where, "parameters"), "names a parameter twice")
        return tuple(parameters)

    def data(self, raw: dict[str, Any], launches: Sequence[LaunchSpec], tile: Tile) -> DataSpec:
        """The buffers, their types and the formula; what launches pass must be among them, and nothing be left out."""
        kernel = self.table((), raw, "kernel", required=not self.several)
        if self.several:
            self.known(("kernel",), kernel, (*TYPES, "formula"))
        chosen = {key: self.element(("kernel",), kernel, key) for key in TYPES if key in kernel}
        if "accumulate" in chosen and chosen["accumulate"] not in ACCUMULATORS:
            raise self.wrong(("kernel", "accumulate"), f"{chosen['accumulate']!r} is none of {', '.join(ACCUMULATORS)}")
        buffers = self.buffers(self.table((), raw, "buffers", required=False), (*SIZES, *tile.defines))
        passed = [name for launch in launches for name in launch.parameters]
        formula = self.string(("kernel",), kernel, "formula") if "formula" in kernel else ""
        try:
            data = DataSpec.plain(passed, **chosen, formula=formula, buffers=buffers, sizes=tile.sizes)
        except ExpressionError as error:
            raise self.wrong(("kernel", "formula"), str(error)) from None
        self.fit(data)
        known = dict.fromkeys([*data.by_name, *SIZES, "lda", "ldb", "ldc", *SCALARS, "bias"])
        for number, launch in enumerate(launches):
            where: Where = ("launches", number) if self.several else ("kernel",)
            for name in launch.parameters:
                if data.parameter(name) is None:
                    raise self.wrong((*where, "parameters"), f'"{name}" is none of {", ".join(known)}')
        sources = {found.source for name in passed if (found := data.parameter(name)) and found.kind in HELD}
        if missing := [name for name in data.by_name if name not in sources]:
            where = ("launches", 0) if self.several else ("kernel",)
            names = ", ".join(missing)
            raise self.wrong((*where, "parameters"), f"{names} is missing; the host passes the matrices by these names")
        return data

    def fit(self, data: DataSpec) -> None:
        """Types, roles and shapes that belong together."""
        if data.answer.role in ("in", "scratch"):
            raise self.wrong(
                (f"buffers.{data.answer.name}", "role"), f"{data.answer.name} holds the answer: make it out or inout"
            )
        for buffer in (*data.factors, data.answer):
            if buffer.element.is_float != data.accumulate.is_float:
                raise self.wrong(
                    ("kernel", "accumulate"),
                    f"{buffer.name} is {buffer.element}, but sums are made in {data.accumulate}: integers are summed "
                    "in int32, the others in floating point",
                )

    def buffers(self, raw: dict[str, Any], names: Sequence[str]) -> list[BufferSpec]:
        found = []
        for name in raw:
            where = (f"buffers.{name}",)
            if not re.fullmatch(r"[A-Za-z]\w*", name) or name in (*names, *SCALARS):
                raise self.wrong(where, "a buffer is named like a variable of C, and not like a size")
            table = raw[name]
            if not isinstance(table, dict):
                raise self.wrong(where, f"must be a table: write [buffers.{name}] on a line of its own")
            self.known(where, table, ("type", "shape", "order", "role", "fill"))
            role = self.choice(where, table, "role", get_args(Role), "out" if name == "C" else "in")
            fill = self.choice(where, table, "fill", get_args(Fill), "random" if role in ("in", "inout") else "poison")
            order = self.choice(where, table, "order", get_args(Order), "row")
            element = ELEMENTS[self.element(where, table, "type")]
            found.append(BufferSpec(name, element, self.expressions(where, table, "shape", names), order, role, fill))
        return found

    def element(self, where: Where, raw: dict[str, Any], key: str) -> str:
        name = self.present(where, raw, key)
        if not isinstance(name, str) or name not in ELEMENTS:
            raise self.wrong((*where, key), f"{name!r} is none of {', '.join(ELEMENTS)}")
        return name

    def choice(self, where: Where, raw: dict[str, Any], key: str, known: tuple[Any, ...], default: str) -> Any:
        word = raw.get(key, default)
        if word not in known:
            raise self.wrong((*where, key), f"{word!r} is none of {', '.join(known)}")
        return word

    def shapes(self, raw: dict[str, Any]) -> Shapes:
        self.known(("shapes",), raw, ("multiple_of", "check", "count"))
        multiples = raw.get("multiple_of", {})
        if not isinstance(multiples, dict):
            raise self.wrong(("shapes", "multiple_of"), "must be a table, like { M = 1, N = 1, K = 1 }")
        self.known(("shapes", "multiple_of"), multiples, SIZES)
        m, n, k = (self.integer(("shapes", "multiple_of"), multiples, name, default=1) for name in SIZES)
        check = self.present(("shapes",), raw, "check")
        if not isinstance(check, list) or not check:
            raise self.wrong(("shapes", "check"), "must be a list of at least one [M, N, K]")
        shapes = Shapes(
            Shape(m, n, k),
            tuple(self.shape(("shapes", "check"), item) for item in check),
            self.shape(("shapes", "count"), self.present(("shapes",), raw, "count")),
        )
        for key, shape in [*(("check", shape) for shape in shapes.check), ("count", shapes.count)]:
            if refusal := shapes.refusal(shape):
                raise self.wrong(("shapes", key), f"[{shape.m}, {shape.n}, {shape.k}] breaks multiple_of: {refusal}")
        return shapes

    def shape(self, where: Where, value: object) -> Shape:
        if not (isinstance(value, list) and len(value) == 3 and all(type(size) is int and size > 0 for size in value)):
            raise self.wrong(where, f"{value!r} is no shape; write [M, N, K], three whole numbers above 0")
        return Shape(*value)

    def gate(self, where: Where, raw: dict[str, Any], names: Sequence[str]) -> Gate:
        self.known(where, raw, ("name", "value", "at_most", "at_least", "why"))
        if ("at_most" in raw) == ("at_least" in raw):
            raise self.wrong(where, "needs exactly one of at_most and at_least")
        bound = "at_most" if "at_most" in raw else "at_least"
        if type(raw[bound]) not in (int, float):
            raise self.wrong((*where, bound), f"must be a number, not {raw[bound]!r}")
        limits = {bound: float(raw[bound])}
        value = self.expression((*where, "value"), self.present(where, raw, "value"), names)
        return Gate(self.string(where, raw, "name"), value, self.string(where, raw, "why"), **limits)

    def todo(self, where: Where, raw: dict[str, Any]) -> Todo:
        self.known(where, raw, ("number", "hints"))
        hints = self.present(where, raw, "hints")
        if (
            not isinstance(hints, list)
            or not hints
            or not all(isinstance(hint, str) and hint.strip() for hint in hints)
        ):
            raise self.wrong((*where, "hints"), "must be a list of texts, from a nudge to nearly the code")
        return Todo(self.integer(where, raw, "number"), tuple(hint.strip() for hint in hints))

    # Values, checked.

    def present(self, where: Where, raw: dict[str, Any], key: str) -> Any:
        if key not in raw:
            raise self.wrong((*where, key), "is missing; add it")
        return raw[key]

    def string(self, where: Where, raw: dict[str, Any], key: str) -> str:
        value = self.present(where, raw, key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong((*where, key), f"must be text, not {value!r}")
        return value.strip()

    def integer(self, where: Where, raw: dict[str, Any], key: str, default: int | None = None) -> int:
        value = raw.get(key, default) if default is not None else self.present(where, raw, key)
        if type(value) is not int or value < 1:
            raise self.wrong((*where, key), f"must be a whole number above 0, not {value!r}")
        return value

    def expression(self, where: Where, value: object, names: Sequence[str]) -> Expression:
        if type(value) is int:
            value = str(value)
        if not isinstance(value, str):
            raise self.wrong(where, f'must be an expression in quotes, like "ceil_div(N, BN)", not {value!r}')
        try:
            return Expression.parse(value, names)
        except ExpressionError as error:
            raise self.wrong(where, str(error)) from None

    def table(self, where: Where, raw: dict[str, Any], key: str, required: bool = True) -> dict[str, Any]:
        value = self.present(where, raw, key) if required else raw.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong((key,), f"must be a table: write [{key}] on a line of its own")
        return value

    def tables(self, raw: dict[str, Any], key: str) -> list[dict[str, Any]]:
        value = raw.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong((key,), f"must be tables: write [[{key}]] above each")
        return value

    def known(self, where: Where, raw: Mapping[str, object], keys: Sequence[str]) -> None:
        for key in raw:
            if key not in keys:
                hint = closest(key, keys)
                raise self.wrong((*where, key), f"unknown key{f'; did you mean {hint}?' if hint else ''} "
                                                f"Known: {', '.join(keys)}")  # fmt: skip

    # Where a key stands.

    def wrong(self, where: Where, message: str) -> LessonError:
        line = self.line(where)
        at = f"{self.path}:{line}" if line else f"{self.path}"
        return LessonError(f"{at}: {_key(where)}{message}")

    def line(self, where: Where) -> int | None:
        """The line of a key: its table's header, then the first ``key =`` below it."""
        if not where:
            return None
        table, *rest = where
        index = rest.pop(0) if rest and isinstance(rest[0], int) else 0
        headers = [i for i, line in enumerate(self.lines) if re.match(rf"\s*\[+\s*{re.escape(str(table))}\s*\]", line)]
        if not headers:  # a key above the first table, or `table = { ... }`
            return self.find(str(table), 0)
        start = headers[min(int(index), len(headers) - 1)]
        for key in rest:
            found = self.find(str(key), start + 1)
            if found is None:
                break
            start = found - 1
        return start + 1

    def find(self, key: str, start: int) -> int | None:
        for i in range(start, len(self.lines)):
            if re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", self.lines[i]):
                return i + 1
        return None


def _key(where: Where) -> str:
    if not where:
        return ""
    table, *rest = where
    if rest and isinstance(rest[0], int):
        return f"[[{table}]] number {rest[0] + 1}: " + "".join(f"{key}: " for key in rest[1:])
    return f"[{table}] " + "".join(f"{key}: " for key in rest) if rest else f"{table}: "
