"""The measured tables, listed in ``tables.toml`` and ``slow_edits.toml``. Each is a file of ``lessons/measured``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from checks.course.kernel import Kernel
from gemm_lessons.course.folder import Course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.pitfalls import load_pitfalls, resized, with_edits
from gemm_lessons.course.tiles import typed
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.gemm.shapes import Shape

ROOT = Path(__file__).parents[2]
STORED = ROOT / "lessons" / "measured"
GPU = "h200"
LISTED = ("tables.toml", "slow_edits.toml")
SOLUTIONS = "solutions"  # the table of h200.json itself
# Lessons that are measured in other tables: beat_cublas, whose host chooses among tiles, in squares; precision in mma.
ELSEWHERE = ("beat_cublas", "precision")
IDLE, WARM, COLD = "idle", "warm", "cold"
PRODUCER = "gemm_by_producer"  # entry in producer.cuh that replaces the solution's, with one more warp


@dataclass(frozen=True)
class Variant:
    """A solution with other tile sizes (``tile``), in another ``type``, or edited: ``edits`` are pairs (find, replace),
    ``pitfall`` names a pitfall of the lesson. The first word of ``name`` is the lesson."""

    name: str
    tile: Mapping[str, int] = field(default_factory=dict)
    type: str = ""
    pitfall: str = ""
    edits: tuple[tuple[str, str], ...] = ()
    wrong: bool = False  # its answer is known to be wrong and is not compared

    def kernel(self) -> Kernel:
        """The edited source with its lesson. Raises ``LessonError`` where an edit does not match the solution."""
        lesson = self.lesson()
        source = lesson.solution_path.read_text()
        if self.pitfall:
            source = load_pitfalls(lesson.directory / "pitfalls.toml")[self.pitfall].source(source)
        return Kernel(self.name, lesson, with_edits(source, self.edits, self.name))

    def lesson(self) -> Lesson:
        """The lesson that the first word of the name names, with this variant's type, tile sizes and launches."""
        lesson = Course(ROOT).lesson(self.name.split()[0])
        lesson = resized(typed(lesson, self.type) if self.type else lesson, self.tile)
        return by_producer(lesson) if any("producer.cuh" in new for _, new in self.edits) else lesson


def by_producer(lesson: Lesson) -> Lesson:
    """The lesson with the kernel of ``producer.cuh`` as its second launch, which has 32 threads more."""
    turn, multiply, combine = lesson.launches
    threads = Expression(f"{multiply.block[0].text} + 32")
    return replace(lesson, launches=(turn, replace(multiply, entry=PRODUCER, block=(threads,)), combine))


@dataclass(frozen=True)
class Problem:
    """One product: ``size`` as its rows state it, ``kind`` the type of A and B."""

    size: int | str
    shape: Shape
    kind: str


@dataclass(frozen=True)
class Precise:
    """Errors to store: at which ``sizes`` (M = N = K), for which inputs (``cases``), and which ``errors`` besides the
    plain one: see tables.toml. ``kernels``: all if none are named."""

    sizes: Sequence[int]
    cases: Sequence[str]
    errors: Sequence[str]
    kind: str
    kernels: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """One table of the TOML files; the head of tables.toml explains the fields."""

    name: str
    what: str
    how: str
    rounds: Mapping[str, int]
    variants: tuple[Variant, ...] = ()
    solutions: bool = False
    fewer: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    kinds: Sequence[str] = ("float32",)
    by_kind: bool = False
    narrow: Sequence[str] = ()
    layouts: Sequence[str] = ()
    relu_bias: bool = False
    transposed: Mapping[str, str] = field(default_factory=dict)
    torch: bool = False
    hgemm: bool = False
    side: int = 0
    checks: Sequence[Sequence[int]] = ()
    compare_sizes: bool = True
    tolerance: float = 1.0
    ways: Sequence[str] = (COLD,)
    spin: Mapping[str, int] = field(default_factory=dict)
    fields: Sequence[str] = ()
    clock: bool = False
    precise: Precise | None = None
    answers: int = 0
    loops: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Its name in ``lessons/measured``."""
        return f"{GPU}.json" if self.name == SOLUTIONS else f"{GPU}_{self.name}.json"

    def kernels(self) -> list[Kernel]:
        """Every kernel, with its source."""
        return solutions() if self.solutions else [variant.kernel() for variant in self.variants]

    def lessons(self) -> dict[str, Lesson]:
        """The lesson of every kernel, by the kernel's name."""
        if self.solutions:
            return {kernel.name: kernel.lesson for kernel in solutions()}
        return {variant.name: variant.lesson() for variant in self.variants}

    def problems(self) -> Iterator[Problem]:
        """Every product that is timed, in order."""
        for size in self.rounds:
            for kind in self.kinds:
                for layout in self.layouts or ("NN",):
                    yield Problem(int(size) if size.isdigit() else size, self.shape(size, layout), kind)

    def shape(self, size: str, layout: str) -> Shape:
        """The shape that a size stands for: M = N = K, M = N = ``side`` with this K, or "MxNxK"."""
        if not size.isdigit():
            return Shape(*map(int, size.split("x")), layout=layout)
        side = self.side or int(size)
        return Shape(side, side, int(size), layout=layout)

    def shapes(self) -> list[Shape]:
        """Every shape that is launched, those of 4096 first: where a host chooses among kernels, the resources of the
        one chosen for the first shape are shown."""
        shapes = [problem.shape for problem in self.problems()]
        largest = [shape for shape in shapes if shape.m == shape.n == shape.k == 4096]
        return [*largest, *shapes, *(Shape(*sizes) for sizes in self.checks)]

    def launches(self, name: str, problem: Problem) -> int:
        """How often a kernel is timed; 0 leaves it out."""
        rules = self.fewer.get(name.split()[0], {})
        most = [rounds for size, rounds in rules.items() if problem.shape.m >= int(size)]
        return min([self.rounds[str(problem.size)], *most])

    def library(self, kind: str) -> str:
        """What the rows of cuBLAS are called."""
        return f"cublas {kind}" if self.by_kind else "cublas"


def solutions() -> list[Kernel]:
    """Solutions of all lessons that compute the same as the first product, C = A B in float32, except ``ELSEWHERE``."""
    course = Course(ROOT)
    lessons = [it for name in course.names if (it := course.lesson(name)).data.multiplies]
    at = lessons[0].shapes.count.names
    alike = [it for it in lessons if it.data.asks_the_same(lessons[0].data, at)]
    return [Kernel.solution(it) for it in alike if it.name[3:] not in ELSEWHERE]


@cache
def tables() -> Mapping[str, Table]:
    """All tables by name."""
    files = [tomllib.loads(Path(__file__).with_name(name).read_text()) for name in LISTED]
    edits = {name: pairs for file in files for name, pairs in file.pop("edits").items()}
    return {name: _table(name, table, edits) for file in files for name, table in file.items()}


def _table(name: str, raw: dict[str, Any], edits: Mapping[str, Any]) -> Table:
    variants = tuple(_variant(it, keys, edits) for it, keys in raw.pop("kernels", {}).items())
    precise = raw.pop("precise", None)
    if precise:
        precise = Precise(**{"kind": raw.get("kinds", Table.kinds)[0], **precise})
    return Table(name, variants=variants, precise=precise, **raw)


def _variant(name: str, keys: Mapping[str, Any], edits: Mapping[str, Any]) -> Variant:
    others = {key: value for key, value in keys.items() if not key.isupper()}
    tile = {key: value for key, value in keys.items() if key.isupper()}
    if "edits" in others:
        others["edits"] = tuple((find, instead) for find, instead in edits[others["edits"]])
    return Variant(name, tile, **others)
