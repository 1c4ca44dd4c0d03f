"""The records of a lesson, which ``lesson_toml.load_lesson`` reads from a lesson's folder.

A lesson is a folder ``NN_name`` that holds ``README.md`` (the text), ``lesson.toml``, ``stub.cu`` and ``solution.cu``;
the learner's own copy is ``kernel.cu``. A lesson contains no Python: a teacher can add one without programming.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gemm_lessons.course.search_space import Condition, SearchSpace
from gemm_lessons.engine import KitError
from gemm_lessons.engine.arguments import Expression, ExpressionError, Number
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import (
    OF_BUFFERS,
    DataSpec,
    Leading,
    Parameter,
    Shape,
    ShapeError,
    Shapes,
    Tile,
    TileSizes,
    leading_name,
    transposed,
)
from gemm_lessons.gemm import prototype as prototype_of

if TYPE_CHECKING:
    from gemm_lessons.engine.records import Grid

LESSON_NAME = re.compile(r"(\d{2})_([a-z0-9][a-z0-9_]*)")  # of a lesson's folder
# Names for gates besides the counters, the sizes and the tile: facts about the compiled kernel.
RESOURCES = ("registers", "spill_bytes", "stack_bytes", "shared_bytes")
# What can hold a kernel up, by the estimate; a lesson names those that it attacks.
LIMITERS = ("issue", "fp32", "tensor", "fp64", "shared", "l1", "l2", "dram", "latency", "launch")


class LessonError(KitError):
    """A lesson's folder or its ``lesson.toml`` is broken: the message names file, line, key and what to do."""


class NoLaunch(LessonError):
    """An expression of lesson.toml gives no valid launch for some sizes. ``why`` says it without the file."""

    def __init__(self, lesson: Lesson, why: str) -> None:
        super().__init__(f"{lesson.toml_path}: {why}")
        self.why = why


@dataclass(frozen=True)
class LaunchSpec:
    """One launch: the kernel's name and its parameters in order, up to three expressions each for grid and block,
    dynamic shared memory in bytes, and blocks per cluster (empty: a launch without clusters)."""

    entry: str
    parameters: tuple[str, ...]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    dynamic_shared: Expression
    cluster: tuple[Expression, ...] = ()

    def at(self, names: Mapping[str, Number]) -> Grid:
        """Return the grid for sizes and tile names. Raise ``ExpressionError`` if it is not of whole numbers >= 1."""
        from gemm_lessons.engine.records import Grid

        def three(expressions: Sequence[Expression]) -> tuple[int, int, int]:
            values = [expression.whole(names, at_least=1) for expression in expressions]
            x, y, z = values + [1] * (3 - len(values))
            return x, y, z

        cluster = three(self.cluster) if self.cluster else None
        return Grid(three(self.grid), three(self.block), self.dynamic_shared.whole(names, at_least=0), cluster)


@dataclass(frozen=True)
class Gate:
    """A limit on a counter, which distinguishes this lesson's method from the last one's. Exactly one bound is set.

    ``id`` is unique in a lesson and stays; ``name`` is for people. An ``integrity`` gate is the course's, the same for
    many lessons, and is shown only when missed. ``value`` may name the counters of ``metrics.COUNTED``, ``RESOURCES``,
    ``M N K`` and the tile; a division by zero in it gives infinity or NaN, and NaN meets no limit. ``where``: the
    shapes that it judges; None: all.
    """

    id: str
    name: str
    value: Expression
    why: str
    at_most: float | None = None
    at_least: float | None = None
    integrity: bool = False
    where: Condition | None = None

    def holds(self, value: float) -> bool:
        """Tell whether the value meets the bound; NaN never does."""
        if self.at_most is not None:
            return value <= self.at_most
        return self.at_least is not None and value >= self.at_least

    @property
    def limit(self) -> str:
        """Return the bound as text, such as ``<= 5``."""
        return f"<= {self.at_most:g}" if self.at_most is not None else f">= {self.at_least:g}"


@dataclass(frozen=True)
class Figure:
    """A number of a run's table that tells the lesson's story. ``value`` is an expression like a gate's, and ``unit``
    is printed after it. The first figure of a lesson is the one that its idea changes."""

    label: str
    value: Expression
    unit: str = ""


@dataclass(frozen=True)
class Todo:
    """The hints for one ``// TODO(number)`` of the stub, from a nudge to nearly the code."""

    number: int
    hints: tuple[str, ...]


@dataclass(frozen=True)
class Lesson:
    """One lesson, read from its folder. The paths may not exist: a learner's course folder has no solutions."""

    directory: Path
    title: str
    idea: str
    tile: Tile
    data: DataSpec
    launches: tuple[LaunchSpec, ...]
    shapes: Shapes
    gates: tuple[Gate, ...] = ()
    todos: tuple[Todo, ...] = ()
    choices: tuple[tuple[str, Expression], ...] = ()  # values that the host computes per launch, like a tile size
    search: SearchSpace = SearchSpace()  # the search space of `tune`
    types: tuple[str, ...] = ()  # other number types of the same source
    type: str = ""  # the chosen one of them; empty: the lesson's own
    starts_from: str = ""  # the lesson whose kernel it improves, without digits; empty: the previous one
    ptxas: tuple[tuple[str, Expression], ...] = ()  # options of the assembler and their values
    figures: tuple[Figure, ...] = ()  # empty: the run's own choice
    attacks: tuple[str, ...] = ()  # of LIMITERS: what its idea relieves
    minutes: int | None = None  # about how long a first pass takes
    architecture: str = ""  # what its kernels are compiled for, such as sm_90a; empty: the course's
    needs: str = ""  # the least architecture that its kernels compile for, such as sm_80; empty: the compiler's

    @property
    def name(self) -> str:
        """Return the folder's name, such as ``03_block_tile``."""
        return self.directory.name

    @property
    def number(self) -> int:
        """Return the two digits of the name: 3 for ``03_block_tile``."""
        return int(self.name[:2])

    @property
    def toml_path(self) -> Path:
        """Return the path of lesson.toml."""
        return self.directory / "lesson.toml"

    @property
    def text_path(self) -> Path:
        """Return the path of the text, in Markdown."""
        return self.directory / "README.md"

    @property
    def questions_path(self) -> Path:
        """Return the path of the questions; not every lesson has them."""
        return self.directory / "predict.toml"

    @property
    def drills_path(self) -> Path:
        """Return the path of the drills; not every lesson has them."""
        return self.directory / "drills.toml"

    @property
    def stub_path(self) -> Path:
        """Return the path of the stub, the learner's start."""
        return self.directory / "stub.cu"

    @property
    def solution_path(self) -> Path:
        """Return the path of the reference."""
        return self.directory / "solution.cu"

    @property
    def kernel_path(self) -> Path:
        """Return the path of the learner's own file."""
        return self.directory / "kernel.cu"

    @property
    def bug_path(self) -> Path:
        """Return the path of the kernel with a bug to find."""
        return self.directory / "bug.cu"

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """Return the search path of ``#include``: ``lessons/common`` (``matrix.cuh``), then the lesson's own folder."""
        return (self.directory.parent / "common", self.directory)

    @cached_property
    def names_of_reference(self) -> frozenset[str] | None:
        """Return all words in the reference's code; None if it is not there, or may use other names, too."""
        from gemm_lessons.engine.compiler import content_of, names_in

        content = content_of(self.solution_path)
        if content is None:
            return None
        return names_in(content.decode(errors="replace"), self.solution_path, self.include_dirs)

    @cached_property
    def multiplying(self) -> int:
        """Return the number of the first launch that receives what depends on A and on B."""
        needs: dict[str, set[str]] = {it.name: {it.name} for it in self.data.factors}
        for number, launch in enumerate(self.launches):
            found = [it.source for it in self.parameters(launch) if it.kind in OF_BUFFERS]
            sources = set[str]().union(*(needs.get(name, set()) for name in found))
            if len(sources) > 1:
                return number
            needs |= {name: sources for name in found if self.data.by_name[name].role != "in"}
        return 0

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of NVRTC besides the tile sizes. Raise ``ExpressionError``."""
        return tuple(f"--ptxas-options={option}" for option in self.of_ptxas)

    @property
    def of_ptxas(self) -> tuple[str, ...]:
        """Return the options of the assembler, such as ``--opt-level=3``. Raise ``ExpressionError``."""
        return tuple(f"--{name}={value.whole(self.tile.defines, at_least=0)}" for name, value in self.ptxas)

    def with_tile(self, tile: Tile) -> Lesson:
        """Return the same lesson with other tile sizes."""
        return replace(self, tile=tile, data=replace(self.data, sizes=tile.sizes))

    def at(self, shape: Shape, leading: Leading = ()) -> Lesson:
        """Return the lesson as it is launched at this shape: data in its layout, and the host's tile sizes for it."""
        if not self.choices:
            return self
        found = self._at.get((shape, leading))
        if found is None:
            names = self.choosing(shape, leading)
            chosen = {name: int(names[name]) for name, _ in self.choices}
            found = self._variant(Tile(tuple({**self.tile.defines, **chosen}.items())), shape.layout)
            self._at[shape, leading] = found
        return found

    def named_at(self, shape: Shape) -> tuple[tuple[str, int], ...]:
        """Return those tile sizes at this shape that the reference's code names."""
        found = self._named_at.get(shape)
        if found is None:
            names = self.names_of_reference
            found = tuple([it for it in self.at(shape).tile.sizes if names is None or it[0] in names])
            self._named_at[shape] = found
        return found

    @cached_property
    def _named_at(self) -> dict[Shape, tuple[tuple[str, int], ...]]:
        return {}

    @cached_property
    def _at(self) -> dict[tuple[Shape, Leading], Lesson]:
        """Memoise the variant for each shape: the choice of hidden shapes tries hundreds, and the same ones recur."""
        return {}

    @cached_property
    def _variants(self) -> dict[tuple[Tile, str], Lesson]:
        return {}

    def _variant(self, tile: Tile, layout: str) -> Lesson:
        made = self._variants.get((tile, layout))
        if made is None:
            data = replace(self.data.in_layout(layout), sizes=tile.sizes)
            made = self._variants[tile, layout] = replace(self, tile=tile, data=data)
        return made

    def choosing(self, shape: Shape, leading: Leading = ()) -> dict[str, Number]:
        """Return the names for the expressions of the choices, and the choices themselves, at this shape."""
        layouts = self._given(shape.layout).lay_out(shape.names)
        names = {**self.names(shape), **transposed(shape.layout)}
        apart = {name: layout.leading for name, layout in layouts.items()} | dict(leading)
        names |= {leading_name(name): it for name, it in apart.items()}
        for name, expression in self.choices:
            names[name] = expression.whole(names, at_least=0)
        return names

    @cached_property
    def _in_layouts(self) -> dict[str, DataSpec]:
        return {}

    def _given(self, layout: str) -> DataSpec:
        """Return the data in a layout, without scratch buffers, whose sizes may depend on the choices."""
        if layout not in self._in_layouts:
            given = tuple(buffer for buffer in self.data.buffers if buffer.role != "scratch")
            self._in_layouts[layout] = replace(self.data, buffers=given).in_layout(layout)
        return self._in_layouts[layout]

    def names(self, shape: Shape) -> dict[str, Number]:
        """Return the names that launch expressions may use: ``M N K`` and the tile sizes."""
        return {**shape.names, **self.tile.defines}

    def grids(self, shape: Shape) -> tuple[Grid, ...]:
        """Return the grid of every launch. Raise ``NoLaunch`` if lesson.toml gives no valid one."""
        try:
            return tuple(launch.at(self.names(shape)) for launch in self.launches)
        except ExpressionError as error:
            raise NoLaunch(self, f"[launch] at M, N, K = {shape.m}, {shape.n}, {shape.k}: {error}") from None

    def parameters(self, launch: LaunchSpec) -> tuple[Parameter, ...]:
        """Return the parameters of a launch's kernel, in order, as C declares them."""
        found = tuple(self.data.parameter(name) for name in launch.parameters)
        return tuple(parameter for parameter in found if parameter is not None)

    def prototype(self, launch: LaunchSpec) -> str:
        """Return the declaration of a launch's kernel for display."""
        return prototype_of(launch.entry, self.parameters(launch))

    def allow(self, shape: Shape) -> None:
        """Raise ``ShapeError`` when the contract of the lesson does not allow this shape."""
        refusal = self.shapes.refusal(shape)
        if refusal:
            raise ShapeError(f"lesson {self.name} cannot take {shape.m},{shape.n},{shape.k}: {refusal}")


@dataclass(frozen=True)
class CoursePart:
    """A part of a course, with the folder names of its lessons. ``number`` is 0 for the lessons of no part."""

    number: int
    title: str
    builds_on: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class LessonSummary:
    """What a list of lessons shows of one: its idea, and about how many minutes a first pass takes."""

    idea: str
    minutes: int | None


def tile_sizes(lesson: Lesson) -> TileSizes:
    """Return the block tile BM x BN and the depth BK; 1 for each that the lesson lacks."""
    sizes = lesson.tile.defines
    return TileSizes(sizes.get("BM", 1), sizes.get("BN", 1), sizes.get("BK", 1))
