"""Read ``lesson.toml``: report every mistake in the file by file, line and key, with what to do about it.

lesson.toml  --load_lesson-->  Lesson(tile, data, launches, shapes, gates, todos)

Most lessons launch one kernel on A, B and C: ``[launch]`` and ``[kernel]`` suffice. Others have ``[[launches]]``,
one after the other, each with its entry, parameters, grid and block, and ``[buffers.NAME]`` for each array that is not
plain A, B or C: type, shape, order, role, fill. ``[tensor_maps.NAME]`` is a tensor map over a buffer, to be passed by
its name: buffer, box, swizzle.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from gemm_lessons.course.gates_toml import GateReader
from gemm_lessons.course.lesson import LESSON_NAME, LIMITERS, RESOURCES, Figure, LaunchSpec, Lesson, LessonError, Todo
from gemm_lessons.course.search_space import MOST, Condition, SearchSpace
from gemm_lessons.course.toml import is_text, read_toml
from gemm_lessons.engine.arguments import Expression, ExpressionError
from gemm_lessons.engine.records import ELEMENTS, Element, Where
from gemm_lessons.gemm import (
    DRAWN,
    LAYOUTS,
    OF_BUFFERS,
    SCALARS,
    SIZES,
    BufferSpec,
    DataSpec,
    Fill,
    Order,
    Role,
    Shape,
    Shapes,
    TensorMapSpec,
    Tile,
)

LONGEST_LABEL = 29  # characters of a figure's label, so that the table of a run fits 80 columns
MAX_THREADS = 1024  # per block, every compute capability so far (CUDA programming guide, "Compute Capabilities")

SWIZZLES = (0, 32, 64, 128)  # bytes
PTXAS = ("opt-level", "register-usage-level")  # options that change machine code, with a number
TYPES = ("a", "b", "c", "accumulate")  # of [kernel]
ACCUMULATORS = ("float64", "float32", "float16", "int32")


def load_lesson(directory: Path, type_: str = "") -> Lesson:
    """Read ``directory/lesson.toml``. With ``type_``, the keys of ``[types.NAME]`` replace the others.

    Raise ``LessonError`` with file, line, key and remedy when the file is missing, unreadable or wrong in any way.
    """
    path = directory / "lesson.toml"
    if not LESSON_NAME.fullmatch(directory.name):
        raise LessonError(
            f"{directory}: a lesson's folder is named like 03_block_tile (two digits, _, lower-case name)"
        )
    read: list[bytes] = []
    for file in (path, directory.parent / "course.toml"):
        with contextlib.suppress(OSError):
            read.append(file.read_bytes() if file.is_file() else b"")  # reading a pipe would wait for a writer
    return replace(_loaded(directory, type_, tuple(read)))  # a copy, which memoises for itself


@lru_cache(maxsize=128)
def _loaded(directory: Path, type_: str, _read: tuple[bytes, ...]) -> Lesson:
    """Return the lesson, parsed once until one of the files changes: a class is compared with every lesson."""
    path = directory / "lesson.toml"
    command = f"gemm-lessons reset {directory.name[:2]} --settings"
    text, raw = read_toml(path, f"to restore it: {command}", command)
    reader = _Reader(path, text)
    return reader.lesson(directory, reader.typed(raw, type_) if type_ else raw, type_)


class _Reader(GateReader):
    """Turns the parsed TOML into records."""

    several = False  # whether launches are in [[launches]]

    def typed(self, raw: dict[str, Any], type_: str) -> dict[str, Any]:
        """Return the file for one of its ``[types]``: keys of tables are replaced one by one, lists as a whole."""
        types = self.table((), raw, "types")
        there = self.table(("types",), types, type_)
        replaced = "tile ptxas choices launch launches kernel buffers tensor_maps shapes gates integrity show".split()
        self.known(("types", type_), there, replaced)
        merged = {key: value for key, value in raw.items() if key not in there}
        for key, value in there.items():
            before = raw.get(key)
            merged[key] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
        other = {"launches": "launch", "launch": "launches"}
        for key in other.keys() & there.keys():
            if other[key] in merged:  # one launch replaces several and their buffers, or several replace one
                del merged[other[key]]
                merged |= {name: there.get(name, {}) for name in ("kernel", "buffers")}
        return merged

    def lesson(self, directory: Path, raw: dict[str, Any], type_: str) -> Lesson:
        from gemm_lessons.engine.records import COUNTED

        words = "tile ptxas launch launches kernel scalars choices buffers tensor_maps shapes gates integrity show todo"
        facts = ("title", "idea", "minutes", "starts_from", "attacks", "architecture", "needs")
        self.known((), raw, (*facts, *words.split(), "tune", "types"))
        tile = self.tile(self.table((), raw, "tile", required=False))
        choices = self.choices(self.table((), raw, "choices", required=False), tile)
        names = (*SIZES, *tile.defines, *dict(choices))
        launches = self.launches(raw, names)
        lesson = Lesson(
            directory=directory,
            title=self.string((), raw, "title") + f" ({type_})" * bool(type_),
            idea=self.string((), raw, "idea"),
            tile=tile,
            data=self.data(raw, launches, tile, names),
            launches=launches,
            shapes=self.shapes(self.table((), raw, "shapes")),
            gates=self.gates(raw, names, tile),
            todos=tuple(self.todo(("todo", i), table) for i, table in enumerate(self.tables(raw, "todo"))),
            choices=choices,
            search=self.search(self.table((), raw, "tune", required=False), (*tile.defines, *dict(choices))),
            types=tuple(self.table((), raw, "types", required=False)),
            type=type_,
            starts_from=self.string((), raw, "starts_from", required=False),
            ptxas=self.ptxas(self.table((), raw, "ptxas", required=False), tile),
            figures=tuple(
                self.figure(("show", i), table, (*names, *COUNTED, *RESOURCES))
                for i, table in enumerate(self.tables(raw, "show"))
            ),
            attacks=self.attacks(raw),
            minutes=self.integer((), raw, "minutes") if "minutes" in raw else None,
            architecture=self.architecture(raw) if "architecture" in raw else "",
            needs=self.architecture(raw, "needs") if "needs" in raw else "",
        )
        if lesson.shapes.layouts != LAYOUTS[:1] and not choices:
            raise self.wrong(("shapes", "layouts"), "needs [choices], or a kernel cannot know the layouts of A and B")
        numbers = [todo.number for todo in lesson.todos]
        if numbers != list(range(1, len(numbers) + 1)):
            raise self.wrong(("todo",), f"the numbers are {numbers}; number the TODOs 1, 2, 3, ... in order")
        lesson = self.chosen(lesson)
        self.try_scalars(lesson)
        self.try_launch(lesson)
        return lesson

    def chosen(self, lesson: Lesson) -> Lesson:
        """Return the lesson with the host's choices at the counting shape. Raise ``LessonError`` if an expression has
        no valid value at a known shape."""
        with self.naming(("choices",)):
            for shape in lesson.shapes.check:
                lesson.at(shape)
            return lesson.at(lesson.shapes.count)

    def choices(self, raw: dict[str, Any], tile: Tile) -> tuple[tuple[str, Expression], ...]:
        """Read the values that the host computes for each launch and passes to the compiler like tile sizes: arithmetic
        over M, N, K, the tile, earlier choices, trans_a and trans_b (0 or 1), and leading dimensions. A choice named
        like a tile size replaces it."""
        found: list[tuple[str, Expression]] = []
        names = [*SIZES, *tile.defines, "trans_a", "trans_b", "lda", "ldb", "ldc"]
        for name in raw:
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or name in SIZES:
                raise self.wrong(("choices", name), "a choice is named in upper case, like WIDTH, and not M, N or K")
            found.append((name, self.expression(("choices", name), raw[name], names)))
            names.append(name)
        return tuple(found)

    def search(self, raw: dict[str, Any], sizes: Sequence[str]) -> SearchSpace:
        """Read the search space of ``tune``: a list of whole numbers for each size, and conditions."""
        self.known(("tune",), raw, (*sizes, "where"))
        values = []
        for name, given in raw.items():
            if name == "where":
                continue
            said = "must be a list of whole numbers, like [64, 128]"
            self.items(("tune", name), given, lambda it: type(it) is int and it >= 0, said, least=1)
            values.append((name, tuple(dict.fromkeys(given))))
        said = 'must be a list of conditions, like ["BM % WM == 0"]'
        conditions = self.items(("tune", "where"), raw.get("where", []), is_text, said)
        with self.naming(("tune", "where")):
            space = SearchSpace(tuple(values), tuple(Condition.parse(text, sizes) for text in conditions))
        if space.combinations > MOST:
            raise self.wrong(("tune",), f"makes {space.combinations:,} combinations; at most {MOST:,} can be searched")
        return space

    def try_scalars(self, lesson: Lesson) -> None:
        for name, value in lesson.data.given:
            if name not in lesson.data.formula.names:
                raise self.wrong(("scalars", name), f"the formula, {lesson.data.formula.text}, does not have it")
            for shape in (*lesson.shapes.check, lesson.shapes.count):
                if not math.isfinite(number := value.value({**shape.names, DRAWN: 1})):
                    raise self.wrong(("scalars", name), f'"{value.text}" is {number} at M, N, K = {shape}')

    def try_launch(self, lesson: Lesson) -> None:
        for shape in (*lesson.shapes.check, lesson.shapes.count):
            there = lesson.at(shape)
            for number, grid in enumerate(there.grids(shape)):
                if grid.threads > MAX_THREADS:
                    where = ("launches", number, "block") if self.several else ("launch", "block")
                    raise self.wrong(where, f"{grid.threads} threads per block; a block holds at most {MAX_THREADS}")
            try:
                there.data.lay_out(shape.names)
            except ExpressionError as error:
                raise LessonError(f"{self.path}: [buffers] at M, N, K = {shape}: {error}") from None
            with self.naming(("kernel", "formula"), f"at M, N, K = {shape}: "):
                there.data.check_formula(shape.names)
        for shape in (*lesson.shapes.check, lesson.shapes.multiple_of):
            try:
                lesson.data.check_maps(shape.names)
            except ExpressionError as error:
                raise LessonError(f"{self.path}: [tensor_maps] at M, N, K = {shape}: {error}") from None

    # One method per table.

    def tile(self, raw: dict[str, Any]) -> Tile:
        sizes = []
        for name in raw:
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or name in SIZES:
                raise self.wrong(("tile", name), "a tile size is named in upper case, like BM, and not M, N or K")
            sizes.append((name, self.integer(("tile",), raw, name)))
        return Tile(tuple(sizes))

    def ptxas(self, raw: dict[str, Any], tile: Tile) -> tuple[tuple[str, Expression], ...]:
        """Read the options of the assembler: a number for each, arithmetic over the tile."""
        self.known(("ptxas",), raw, PTXAS)
        found = [(name, self.expression(("ptxas", name), raw[name], tuple(tile.defines))) for name in raw]
        for name, value in found:
            with self.naming(("ptxas", name)):
                value.whole(tile.defines, at_least=0)
        return tuple(found)

    def launches(self, raw: dict[str, Any], names: Sequence[str]) -> tuple[LaunchSpec, ...]:
        keys = ("grid", "block", "dynamic_shared", "cluster")
        self.several = "launches" in raw
        if not self.several:
            launch, kernel = self.table((), raw, "launch"), self.table((), raw, "kernel")
            self.known(("launch",), launch, keys)
            self.known(("kernel",), kernel, ("entry", "parameters", *TYPES, "formula", "promote"))
            return (self.one(("kernel",), kernel, ("launch",), launch, names),)
        if "launch" in raw:
            raise self.wrong(
                ("launch",), "is for a lesson with one launch, but there are [[launches]], too: keep one of the two"
            )
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
            self.expressions(at, launch, "cluster", names) if "cluster" in launch else (),
        )

    def expressions(self, where: Where, raw: dict[str, Any], key: str, names: Sequence[str]) -> tuple[Expression, ...]:
        values = self.present(where, raw, key)
        if not isinstance(values, list) or not 1 <= len(values) <= 3:
            example = '["M", "N"]' if key == "shape" else '["ceil_div(N, BN)", "ceil_div(M, BM)"]'
            raise self.wrong((*where, key), f"must be a list of one to three expressions, like {example}")
        return tuple(self.expression((*where, key), value, names) for value in values)

    def parameters(self, where: Where, raw: dict[str, Any]) -> tuple[str, ...]:
        said = 'must be a list of names, like ["A", "B", "C", "M", "N", "K"]'
        parameters = self.items((*where, "parameters"), self.present(where, raw, "parameters"), is_text, said)
        if len(set(parameters)) < len(parameters):
            raise self.wrong((*where, "parameters"), "names a parameter twice")
        return tuple(parameters)

    def data(self, raw: dict[str, Any], launches: Sequence[LaunchSpec], tile: Tile, names: Sequence[str]) -> DataSpec:
        """Read the buffers, their types and the formula. Launches must pass all of these and nothing else."""
        kernel = self.table((), raw, "kernel", required=not self.several)
        if self.several:
            self.known(("kernel",), kernel, (*TYPES, "formula", "promote"))
        chosen = {key: self.element(("kernel",), kernel, key) for key in TYPES if key in kernel}
        if "accumulate" in chosen and chosen["accumulate"] not in ACCUMULATORS:
            raise self.wrong(("kernel", "accumulate"), f"{chosen['accumulate']!r} is none of {', '.join(ACCUMULATORS)}")
        buffers = self.buffers(self.table((), raw, "buffers", required=False), (*SIZES, *tile.defines), names)
        maps = self.tensor_maps(self.table((), raw, "tensor_maps", required=False), (*SIZES, *tile.defines))
        passed = [name for launch in launches for name in launch.parameters]
        formula = self.string(("kernel",), kernel, "formula", required=False)
        given = self.scalars(self.table((), raw, "scalars", required=False))
        promote = kernel.get("promote")
        if promote is not None:
            promote = self.expression(("kernel", "promote"), promote, (*SIZES, *tile.defines))
        with self.naming(("kernel", "formula")):
            data = DataSpec.plain(
                passed, **chosen, formula=formula, buffers=buffers, sizes=tile.sizes, maps=maps, given=given,
                promote=promote,
            )  # fmt: skip
        self.fit(data)
        plain = data.formula.has_products and not data.formula.has_functions and promote is None
        for buffer in buffers:
            if buffer.range is not None and plain and not all(it.range for it in data.factors):
                why = "numbers of a product have many exponents as they are; a range is for formulas with functions, "
                why += "or for both factors: numbers of a row of A, and of a column of B, are then of one size"
                raise self.wrong((f"buffers.{buffer.name}", "range"), why)
        for one in maps:
            mapped = data.by_name.get(one.buffer)
            if mapped is None or len(mapped.shape) != len(one.box):
                what = f"{one.buffer!r} is not a buffer" if mapped is None else "needs a size for each of the buffer's"
                raise self.wrong((f"tensor_maps.{one.name}", "buffer" if mapped is None else "box"), what)
        held = (*data.by_name, *(one.name for one in maps))
        known = dict.fromkeys([*held, *SIZES, "lda", "ldb", "ldc", *SCALARS, "bias"])
        for number, launch in enumerate(launches):
            where: Where = ("launches", number) if self.several else ("kernel",)
            for name in launch.parameters:
                if data.parameter(name) is None:
                    raise self.wrong((*where, "parameters"), f'"{name}" is none of {", ".join(known)}')
        sources = {found.source for name in passed if (found := data.parameter(name)) and found.kind in OF_BUFFERS}
        if missing := [name for name in data.by_name if name not in sources]:
            where = ("launches", 0) if self.several else ("kernel",)
            names = ", ".join(missing)
            raise self.wrong((*where, "parameters"), f"{names} is missing; the host passes the matrices by these names")
        return data

    def fit(self, data: DataSpec) -> None:
        """Check that types, roles and shapes fit together."""
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

    def scalars(self, raw: dict[str, Any]) -> tuple[tuple[str, Expression], ...]:
        """Read the host's values of alpha and beta, over M, N, K and a random number; others are random numbers."""
        self.known(("scalars",), raw, SCALARS)
        return tuple((name, self.expression(("scalars", name), raw[name], (*SIZES, DRAWN))) for name in raw)

    def buffers(self, raw: dict[str, Any], sizes: Sequence[str], chosen: Sequence[str]) -> list[BufferSpec]:
        """Read the buffers. The shape of scratch may also name values that the host has ``chosen``."""
        found = []
        keys = ("type", "shape", "order", "role", "fill", "range")
        for name, where, table in self.variables("buffers", "buffer", raw, (*chosen, *SCALARS), keys):
            role = self.choice(where, table, "role", get_args(Role), "out" if name == "C" else "in")
            fill = self.choice(where, table, "fill", get_args(Fill), "random" if role in ("in", "inout") else "poison")
            order = self.choice(where, table, "order", get_args(Order), "row")
            element = ELEMENTS[self.element(where, table, "type")]
            shape = self.expressions(where, table, "shape", chosen if role == "scratch" else sizes)
            found.append(BufferSpec(name, element, shape, order, role, fill, self.range(where, table, element, fill)))
        return found

    def variables(
        self, section: str, what: str, raw: dict[str, Any], taken: Sequence[str], keys: Sequence[str]
    ) -> Iterator[tuple[str, Where, dict[str, Any]]]:
        """Yield name, place and contents of each table of a section whose tables are named like C variables."""
        for name, table in raw.items():
            where = (f"{section}.{name}",)
            if not re.fullmatch(r"[A-Za-z]\w*", name) or name in taken:
                raise self.wrong(where, f"name a {what} like a C variable, not like a size")
            if not isinstance(table, dict):
                raise self.wrong(where, f"must be a table: write [{section}.{name}] on a line of its own")
            self.known(where, table, keys)
            yield name, where, table

    def range(self, where: Where, table: dict[str, Any], element: Element, fill: str) -> tuple[float, float] | None:
        match table.get("range"):
            case None:
                return None
            case [int() | float() as least, int() | float() as most] if least < most and fill == "random":
                if element.is_float:
                    return float(least), float(most)
        raise self.wrong((*where, "range"), "must be two numbers, the smaller first, of random numbers that are floats")

    def tensor_maps(self, raw: dict[str, Any], names: Sequence[str]) -> tuple[TensorMapSpec, ...]:
        found = []
        keys = ("buffer", "box", "swizzle")
        for name, where, table in self.variables("tensor_maps", "tensor map", raw, (*names, *SCALARS), keys):
            swizzle = self.choice(where, table, "swizzle", SWIZZLES, 0)
            box = self.expressions(where, table, "box", names)
            found.append(TensorMapSpec(name, self.string(where, table, "buffer"), box, swizzle))
        return tuple(found)

    def element(self, where: Where, raw: dict[str, Any], key: str) -> str:
        name = self.present(where, raw, key)
        if not isinstance(name, str) or name not in ELEMENTS:
            raise self.wrong((*where, key), f"{name!r} is none of {', '.join(ELEMENTS)}")
        return name

    def choice(self, where: Where, raw: dict[str, Any], key: str, known: tuple[Any, ...], default: Any) -> Any:
        word = raw.get(key, default)
        if word not in known:
            raise self.wrong((*where, key), f"{word!r} is none of {', '.join(map(str, known))}")
        return word

    def shapes(self, raw: dict[str, Any]) -> Shapes:
        self.known(("shapes",), raw, ("multiple_of", "at_most", "check", "count", "timed", "layouts", "products"))
        layouts = raw.get("layouts", list(LAYOUTS[:1]))
        said = f"must be a list of some of {', '.join(LAYOUTS)}"
        self.items(("shapes", "layouts"), layouts, lambda it: it in LAYOUTS, said, least=1)
        multiples, most = self.sizes(raw, "multiple_of"), self.sizes(raw, "at_most")
        m, n, k = (multiples.get(name, 1) for name in SIZES)
        products = raw.get("products", 1)
        if type(products) is not int or products < 1:
            raise self.wrong(("shapes", "products"), "must be a whole number of at least 1")
        check, said = self.present(("shapes",), raw, "check"), "must be a list of at least one [M, N, K]"
        self.items(("shapes", "check"), check, lambda _: True, said, least=1)
        shapes = Shapes(
            Shape(m, n, k),
            tuple(self.shape(("shapes", "check"), item) for item in check),
            self.shape(("shapes", "count"), self.present(("shapes",), raw, "count")),
            tuple(layouts),
            tuple(most.items()),
            self.shape(("shapes", "timed"), raw["timed"]) if "timed" in raw else None,
            products,
        )
        for key, shape in [*(("check", it) for it in shapes.check), ("count", shapes.count), ("timed", shapes.timed)]:
            if shape is not None and (refusal := shapes.refusal(shape)):
                raise self.wrong(("shapes", key), f"[{shape.m}, {shape.n}, {shape.k}] breaks the contract: {refusal}")
        return shapes

    def sizes(self, raw: dict[str, Any], key: str) -> dict[str, int]:
        """Return M, N and K where the contract's table has them."""
        table = raw.get(key, {})
        if not isinstance(table, dict):
            raise self.wrong(("shapes", key), "must be a table, like { M = 1, N = 1, K = 1 }")
        self.known(("shapes", key), table, SIZES)
        return {name: self.integer(("shapes", key), table, name) for name in table}

    def shape(self, where: Where, value: object) -> Shape:
        sizes, layout = (value[:3], value[3:]) if isinstance(value, list) else ([], [])
        whole = len(sizes) == 3 and all(type(size) is int and size > 0 for size in sizes)
        if not whole or len(layout) > 1 or any(name not in LAYOUTS for name in layout):
            raise self.wrong(where, f"{value!r} is not a shape; write [M, N, K], three whole numbers above 0")
        return Shape(*sizes, layout=(*layout, LAYOUTS[0])[0])

    def figure(self, where: Where, raw: dict[str, Any], names: Sequence[str]) -> Figure:
        self.known(where, raw, ("label", "value", "unit"))
        label = self.string(where, raw, "label")
        if len(label) > LONGEST_LABEL:
            raise self.wrong((*where, "label"), f"has {len(label)} characters; a row of the table has {LONGEST_LABEL}")
        value = self.expression((*where, "value"), self.present(where, raw, "value"), names)
        return Figure(label, value, self.string(where, raw, "unit", required=False))

    def attacks(self, raw: dict[str, Any]) -> tuple[str, ...]:
        """Read which limiters the lesson's idea relieves."""
        said = f"must be a list of some of {', '.join(LIMITERS)}"
        return tuple(self.items(("attacks",), raw.get("attacks", []), lambda it: it in LIMITERS, said))

    def todo(self, where: Where, raw: dict[str, Any]) -> Todo:
        self.known(where, raw, ("number", "hints"))
        hints, said = self.present(where, raw, "hints"), "must be a list of texts, from a nudge to nearly the code"
        self.items((*where, "hints"), hints, lambda it: is_text(it) and bool(it.strip()), said, least=1)
        return Todo(self.integer(where, raw, "number"), tuple(hint.strip() for hint in hints))
