"""Read the rubric: ``grading.toml``, or ten points for each lesson without one.

    seed = 4711                     # of the class: seeds the hidden inputs
    lessons = ["01-09"]             # graded lessons
    near_miss = { within = 0.1, worth = 0.5 }     # a gate missed by at most a tenth is worth half its points

    [points]                        # of a lesson, by the stage that a kernel reaches
    compiles = 1
    runs = 1                        # to the end, without a fault
    right_values = 5                # on every shape
    gates = 3                       # the counters meet the lesson's gates, which share these points

    [lesson.block_tile]             # exceptions for this lesson
    points = { gates = 6 }
    gates = { barriers_per_k_tile = 1 }           # this gate's points, by id; the other gates share the rest
    shapes = [[65, 33, 40]]         # additional hidden check shapes
    limits = { seconds = 30 }       # instead of those for all

    [limits]
    seconds = 60
    memory_gib = 2                  # in addition to the memory of the kit itself

``score`` is a pure function of the outcome, so a change of points needs no new run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from gemm_lessons.course import CommandError, Course, Lesson, LessonError, TomlReader, is_text, read_toml
from gemm_lessons.engine.records import Where, dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.running import JSON

STAGES = ("compiles", "runs", "right_values", "gates")
MOST_POINTS = 1e6  # of a lesson
MOST_SHAPES = 20  # additional shapes of a lesson
MOST_PRODUCTS = 1 << 27  # multiply-adds of a shape: one minute on the simulator
LARGEST_SEED = 1 << 63
SECONDS = (1.0, 3600.0)
MEMORY_GIB = (0.25, 64.0)
MOST_SEEDS = 10


@dataclass(frozen=True)
class Points:
    """Points of one lesson, by stage, and of the gates with points of their own."""

    compiles: float = 1.0
    runs: float = 1.0
    right_values: float = 5.0
    gates: float = 3.0
    own: tuple[tuple[str, float], ...] = ()

    @property
    def out_of(self) -> float:
        """Return the sum of all points."""
        return self.compiles + self.runs + self.right_values + self.gates

    def of_gates(self, lesson: Lesson) -> dict[str, float]:
        """Return the points of each gate, by id. Empty without gates: ``score`` adds these points to right values."""
        own = dict(self.own)
        others = [gate.id for gate in lesson.gates if gate.id not in own]
        left = self.gates - sum(own.values())
        return {gate.id: own.get(gate.id, left / max(1, len(others))) for gate in lesson.gates}


@dataclass(frozen=True)
class LessonRubric:
    """Points of one lesson, more check shapes, seeds instead of the derived ones, and its own limits."""

    points: Points = field(default_factory=Points)
    shapes: tuple[Shape, ...] = ()
    seeds: tuple[int, ...] = ()  # replace the derived seeds
    seconds: float | None = None  # None: the limits for all lessons
    memory_gib: float | None = None


@dataclass(frozen=True)
class NearMiss:
    """A gate missed by at most the fraction ``within`` of its limit gives the fraction ``worth`` of its points."""

    within: float = 0.0
    worth: float = 0.0


@dataclass(frozen=True)
class Rubric:
    """The content of ``grading.toml``."""

    lessons: tuple[str, ...]
    by_lesson: Mapping[str, LessonRubric]
    near_miss: NearMiss = field(default_factory=NearMiss)
    seed: int | None = None
    seeds: int = 1  # number of input sets for each submission
    seconds: float = 60.0
    memory_gib: float = 2.0

    def as_json(self) -> dict[str, JSON]:
        """Return the rubric as JSON for ``grading.json``."""
        return {
            "near_miss": {"within": self.near_miss.within, "worth": self.near_miss.worth},
            "seeds": self.seeds,
            "limits": {"seconds": self.seconds, "memory_gib": self.memory_gib},
            "lessons": {
                lesson: {
                    "points": {stage: getattr(it.points, stage) for stage in STAGES},
                    "gates": dict(it.points.own),
                    "shapes": [[shape.m, shape.n, shape.k] for shape in it.shapes],
                    "seeds": list(it.seeds),
                    "limits": {"seconds": it.seconds, "memory_gib": it.memory_gib},
                }
                for lesson, it in sorted(self.by_lesson.items())
            },
        }

    @classmethod
    def plain(cls, lessons: Sequence[str]) -> Rubric:
        """Return the default rubric, ten points for each lesson."""
        return cls(tuple(lessons), {lesson: LessonRubric() for lesson in lessons})


def load_rubric(path: Path, course: Course) -> Rubric:
    """Read ``grading.toml``. Raises ``CommandError`` with file, line, key and remedy."""
    try:
        text, raw = read_toml(path, "name the file, or leave --config out: a lesson is worth ten points then")
        return _Reader(path, text, course).rubric(raw)
    except RecursionError:
        raise CommandError(f"{path}: nested too deeply; restore the file") from None
    except LessonError as error:
        raise CommandError(str(error)) from None


def parse_lessons(course: Course, texts: Sequence[str]) -> tuple[str, ...]:
    """Parse ``01-09``, ``block_tile``, ``03,05`` into names in the course's order. Raises ``CommandError``."""
    found = set()
    for text in (part.strip() for words in texts for part in words.split(",")):
        ends = re.fullmatch(r"(\d{1,2})\s*(?:-|\.\.|:|–)\s*(\d{1,2})", text)
        if ends is None:
            found.add(course.resolve(text))
            continue
        first, last = int(ends[1]), int(ends[2])
        within = [name for name in course.names if first <= int(name[:2]) <= last]
        if not within or last > int(course.names[-1][:2]):
            what = text if within else f"no lesson from {text}"
            raise CommandError(f"{what}; the course has {course.names[0][:2]} to {course.names[-1][:2]}")
        found.update(within)
    return tuple(name for name in course.names if name in found)


class _Reader(TomlReader):
    def __init__(self, path: Path, text: str, course: Course) -> None:
        super().__init__(path, text)
        self.course = course

    def rubric(self, raw: dict[str, Any]) -> Rubric:
        self.known((), raw, ("seed", "seeds", "lessons", "near_miss", "points", "lesson", "limits"))
        lessons = self.lessons(raw)
        points = self.points(("points",), self.table((), raw, "points", required=False), Points())
        limits = self.table((), raw, "limits", required=False)
        self.known(("limits",), limits, ("seconds", "memory_gib"))
        return Rubric(
            lessons,
            self.by_lesson(self.table((), raw, "lesson", required=False), points),
            self.near_miss(self.table((), raw, "near_miss", required=False)),
            self.seed((), raw["seed"], "seed") if "seed" in raw else None,
            int(self.number((), raw, "seeds", 1, (1, MOST_SEEDS), whole=True)),
            self.number(("limits",), limits, "seconds", Rubric.seconds, SECONDS),
            self.number(("limits",), limits, "memory_gib", Rubric.memory_gib, MEMORY_GIB),
        )

    def lessons(self, raw: dict[str, Any]) -> tuple[str, ...]:
        said = raw.get("lessons", [])
        texts = [said] if isinstance(said, str) else said
        self.items(("lessons",), texts, is_text, 'must be a list of lessons, like ["01-09"] or ["block_tile"]')
        try:
            return parse_lessons(self.course, texts)
        except CommandError as error:
            raise self.wrong(("lessons",), str(error)) from None

    def by_lesson(self, raw: dict[str, Any], points: Points) -> dict[str, LessonRubric]:
        found = {name: LessonRubric(points) for name in self.course.names}
        named: dict[str, str] = {}
        for key, table in raw.items():
            where: Where = (f"lesson.{key}",)
            try:
                lesson = self.course.resolve(key)
            except CommandError as error:
                raise self.wrong(where, str(error)) from None
            if lesson in named:
                raise self.wrong(where, f"is lesson {lesson}, as [lesson.{named[lesson]}] is; write one table")
            named[lesson] = key
            if not isinstance(table, dict):
                raise self.wrong(where, f"must be a table: write [lesson.{key}] on a line of its own")
            found[lesson] = self.one(where, key, table, self.course.lesson(lesson), points)
        return found

    def one(self, where: Where, key: str, raw: dict[str, Any], lesson: Lesson, points: Points) -> LessonRubric:
        self.known(where, raw, ("points", "gates", "shapes", "seeds", "limits"))
        table = self.inner(where, key, raw, "points")
        mine = self.points((*where, "points"), table, points)
        gates = self.inner(where, key, raw, "gates")
        ids = {**{gate.name: gate.id for gate in lesson.gates}, **{gate.id: gate.id for gate in lesson.gates}}
        if not set(gates) <= set(ids):  # names are taken, too: older rubrics have them
            self.known((*where, "gates"), gates, [gate.id for gate in lesson.gates])
        given = {ids[key]: self.number((*where, "gates"), gates, key, 0, (0, MOST_POINTS)) for key in gates}
        own = tuple(given.items())
        if (total := sum(value for _, value in own)) > mine.gates + 1e-9:
            raise self.wrong(
                (*where, "gates"), f"these are {total:g} points, and all gates together have {mine.gates:g}"
            )
        shapes = raw.get("shapes", [])
        if not isinstance(shapes, list) or len(shapes) > MOST_SHAPES:
            raise self.wrong((*where, "shapes"), f"must be a list of at most {MOST_SHAPES} [M, N, K]")
        seeds = raw.get("seeds", [])
        if not isinstance(seeds, list) or len(seeds) > MOST_SEEDS:
            raise self.wrong((*where, "seeds"), f"must be a list of at most {MOST_SEEDS} whole numbers")
        return LessonRubric(
            replace(mine, own=own),
            tuple(self.shape((*where, "shapes"), lesson, shape) for shape in shapes),
            tuple(self.seed(where, seed, "seeds") for seed in seeds),
            **self.own_limits((*where, "limits"), self.inner(where, key, raw, "limits")),
        )

    def own_limits(self, where: Where, raw: dict[str, Any]) -> dict[str, float]:
        within = {"seconds": SECONDS, "memory_gib": MEMORY_GIB}
        self.known(where, raw, tuple(within))
        return {name: self.number(where, raw, name, 0, within[name]) for name in raw}

    def inner(self, where: Where, key: str, raw: dict[str, Any], name: str) -> dict[str, Any]:
        table = raw.get(name, {})
        if not isinstance(table, dict):
            raise self.wrong((*where, name), f"must be a table: {name} = {{ ... }} or [lesson.{key}.{name}]")
        return table

    def shape(self, where: Where, lesson: Lesson, value: object) -> Shape:
        if not (isinstance(value, list) and len(value) == 3 and all(type(size) is int and size > 0 for size in value)):
            raise self.wrong(where, f"{value!r} is not a shape; write [M, N, K], three whole numbers above 0")
        shape = Shape(*value)
        if refusal := lesson.shapes.refusal(shape):
            raise self.wrong(where, f"lesson {lesson.name} cannot take {value}: {refusal}")
        if shape.m * shape.n * shape.k > MOST_PRODUCTS:
            raise self.wrong(where, f"{value} is too much work for a simulator; 512 x 512 x 512 is the most")
        return shape

    def points(self, where: Where, raw: dict[str, Any], default: Points) -> Points:
        self.known(where, raw, STAGES)

        def of(stage: str) -> float:
            return self.number(where, raw, stage, getattr(default, stage), (0, MOST_POINTS))

        return Points(of("compiles"), of("runs"), of("right_values"), of("gates"))

    def near_miss(self, raw: dict[str, Any]) -> NearMiss:
        self.known(("near_miss",), raw, ("within", "worth"))
        within = self.number(("near_miss",), raw, "within", 0.1 if raw else 0.0, (0, 10))
        return NearMiss(within, self.number(("near_miss",), raw, "worth", 0.5 if raw else 0.0, (0, 1)))

    def seed(self, where: Where, value: object, key: str) -> int:
        if type(value) is not int or not 0 <= value < LARGEST_SEED:
            raise self.wrong((*where, key), f"{value!r} is not a seed; write a whole number from 0 to 2^63 - 1")
        return value

    def number(
        self, where: Where, raw: Mapping[str, object], key: str, default: float, within: tuple[float, float],
        whole: bool = False,
    ) -> float:  # fmt: skip
        value = raw.get(key, default)
        low, high = within
        kinds = (int,) if whole else (int, float)
        if type(value) not in kinds or not low <= float(str(value)) <= high:  # also refuses NaN
            kind = "a whole number" if whole else "a number"
            raise self.wrong((*where, key), f"must be {kind} from {low:g} to {high:g}, not {value!r}")
        return float(str(value))
