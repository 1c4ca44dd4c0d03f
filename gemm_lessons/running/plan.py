"""What to run: as requested (``RunRequest``), and as decided once, launch by launch (``RunPlan``).

    RunRequest --RunPlan.of--> RunPlan: a KernelPlan for each row of the table, with a LaunchPlan for each shape

Both processes of a run work from the same plan; all decisions are made in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gemm_lessons.course import Course, Lesson, Stub, read_source, tile_sizes
from gemm_lessons.devices import Binaries, Device, Task
from gemm_lessons.engine import GpuSpec
from gemm_lessons.engine.compiler import names_in
from gemm_lessons.engine.process import Bounds, affordable
from gemm_lessons.engine.records import Grid, dataclass
from gemm_lessons.gemm import (
    SCALARS,
    Alike,
    BufferLayout,
    FarProblem,
    Leading,
    Problem,
    Shape,
    astuple,
    fresh_seed,
)
from gemm_lessons.running.builder import Workshop
from gemm_lessons.running.checked_shapes import hidden_alike, hidden_also, hidden_checks
from gemm_lessons.running.counted_shapes import hidden_and_counted, is_countable
from gemm_lessons.running.far_shapes import FarSample, FarTiles, hidden_instead, hidden_sample, hidden_tiles
from gemm_lessons.running.jobs import Kept
from gemm_lessons.running.outcome import Role

if TYPE_CHECKING:
    from gemm_lessons.devices import Gpu

ESTIMATE_SIZE = 4096  # M = N = K of the times in the table unless the lesson sets it: hides launch overhead and tail
DIGITS = 256  # of K, at most, where the last bit of sums is checked
PLAIN = 8  # consecutive seeds with the scalars of the checked shape, followed by 8 with those of the next shape

Purpose = Literal["check", "count", "time", "sample", "tile", "far"]


@dataclass(frozen=True)
class RunRequest:
    """The kernel to run and the options of the run.

    ``shape`` replaces the lesson's check shapes and is the shape of the estimate; ``seed`` repeats an earlier run;
    ``beside`` adds the previous lesson's solution and the reference to the table; ``kept`` has their rows from earlier
    runs of this process; ``estimating``: times are estimated for ``gpu``. ``graded``: the kernel is also checked,
    counted and judged on hidden shapes, and checked on ``secret`` ones. ``bounds``: its limits of time and memory.
    """

    course: Course
    lesson: Lesson
    path: Path
    device: Device
    gpu: GpuSpec
    shape: Shape | None = None
    seed: int | None = None
    beside: bool = True
    kept: Kept | None = None
    estimating: bool = True
    graded: bool = False
    secret: tuple[Shape, ...] = ()
    bounds: Bounds = field(default_factory=lambda: Bounds(memory_bytes=affordable()))


@dataclass(frozen=True)
class LaunchPlan:
    """Consecutive launches of a lesson on one problem. ``lesson`` is the lesson as the host launches it at this shape.
    A launch to ``count`` is traced by counters; ``hidden`` marks a shape that is not disclosed. A launch to ``sample``
    runs and counts only some blocks; one for a ``tile`` of C runs the blocks that the tile needs, uncounted. A ``far``
    launch is counted, but not searched for races.

    The other fields choose the problem's inputs: see ``Problem``.
    """

    lesson: Lesson
    shape: Shape
    purpose: Purpose
    grids: tuple[Grid, ...]
    hidden: bool = False
    sample: FarSample | None = None
    tile: FarTiles | None = None
    gaps: bool = False
    next_scalars: bool = False
    rare: bool = False
    sharp: bool = False
    flat: bool = False
    alike: Alike | None = None
    turns: tuple[tuple[str, int], ...] = ()
    leading: Leading = ()

    @property
    def is_counted(self) -> bool:
        """Tell whether gates judge what this launch did."""
        return self.purpose in ("count", "sample", "far")

    @property
    def operations(self) -> int:
        """Return the operations of the formula at this shape."""
        return self.lesson.data.operations(self.shape.names)

    def gives(self, scalar: str) -> bool:
        """Tell whether this scalar is in the formula, and is drawn at this shape."""
        data, more = self.lesson.data, int(self.next_scalars)
        told = {name: size + more for name, size in self.shape.names.items()}
        return scalar in data.formula.names and data.scalar(scalar, told, lambda: 2) != data.scalar(scalar, told)

    def problem(self, seed: int) -> Problem:
        """Return the problem with new inputs and the right answer."""
        return Problem(
            self.lesson.data, self.shape, seed, gaps=self.gaps, next_scalars=self.next_scalars, rare=self.rare,
            sharp=self.sharp, flat=self.flat, alike=self.alike, turns=dict(self.turns), leading=self.leading,
        )  # fmt: skip

    def layouts(self, seed: int) -> Mapping[str, BufferLayout]:
        """Return how the problem's buffers are stored."""
        data, far = self.lesson.data, self.sample or self.tile
        if far is not None:
            tiles = self.sample.tiles if self.sample else None
            return FarProblem(data, self.shape, seed, tile_sizes(self.lesson), 1, tiles).layouts
        return Problem.lay_out(data, self.shape, seed, gaps=self.gaps, rare=self.rare, leading=self.leading)

    def task(self, code: Binaries, problem: Problem) -> Task:
        """Return the task for a device."""
        parameters = tuple(launch.parameters for launch in self.lesson.launches)
        return Task(code, self.grids, parameters, problem.trial, self.operations // 2)


@dataclass(frozen=True)
class KernelPlan:
    """One row of the table: a kernel file, the lesson that launches it, and all its launches.

    ``launches``: the known shapes to check and the counting shape, then the hidden ones: to count, to check, a sample
    of the far one or what replaces it. A slow kernel is stopped on one of the last, when its gates are known.
    ``timed``: the lesson as launched at the timed shape; None where it cannot take that shape, or nothing is timed.
    """

    role: Role
    label: str
    lesson: Lesson
    path: Path | None  # None: the course does not have this file here
    launches: tuple[LaunchPlan, ...] = ()
    timed: LaunchPlan | None = None

    @property
    def file(self) -> Path:
        """Return the path of a kernel that is built: the course has its file here."""
        assert self.path is not None
        return self.path

    @property
    def counted(self) -> tuple[LaunchPlan, ...]:
        """Return the counted launches: the counting shape first."""
        return tuple(launch for launch in self.launches if launch.is_counted)

    @property
    def counting_shape(self) -> Shape:
        """Return the shape whose counters the table shows."""
        return self.counted[0].shape

    @property
    def variants(self) -> tuple[Lesson, ...]:
        """Return the lesson's variant for each shape of this run: one compilation each. Its own tile is first."""
        timed = () if self.timed is None else (self.timed.lesson,)
        return tuple(dict.fromkeys((self.lesson, *(launch.lesson for launch in self.launches), *timed)))

    @property
    def disassembled(self) -> frozenset[Lesson]:
        """Return the variants whose machine code is needed: the counted or timed ones, and the lesson's own tile."""
        return frozenset(
            (self.lesson, *(it.lesson for it in self.counted), *((self.timed.lesson,) if self.timed else ()))
        )


@dataclass(frozen=True)
class RunPlan:
    """A fully decided run. ``timed_shape`` is the shape of estimates and measurements; the kernel is also counted on
    the ``hidden`` shapes of graded runs, and only checked on the ``secret`` ones. It is checked and counted on a
    ``sample`` of a far shape and on the samples ``also`` of others; without a sample, on the shapes ``instead``. It is
    only checked on ``tiles`` of C at far shapes."""

    request: RunRequest
    lesson: Lesson
    gpu: GpuSpec
    device: Device
    seed: int
    timed_shape: Shape
    workshop: Workshop
    kernels: tuple[KernelPlan, ...] = ()  # the kernel under test, then the rows beside it
    hidden: tuple[Shape, ...] = ()
    secret: tuple[Shape, ...] = ()
    sample: FarSample | None = None
    also: tuple[FarSample, ...] = ()
    tiles: tuple[FarTiles, ...] = ()
    instead: tuple[Shape, ...] = ()
    alike: Mapping[Shape, Alike] = field(default_factory=dict)
    stub: Stub = Stub()  # of the lesson, if it has one

    @classmethod
    def of(cls, request: RunRequest) -> RunPlan:
        """Decide a request. Raise ``ShapeError`` when the lesson does not allow the requested shape."""
        lesson = request.lesson
        for shape in (request.shape, *request.secret):
            if shape is not None:
                lesson.allow(shape)
        whole = Shape(
            *(-(-ESTIMATE_SIZE // size) * size for size in astuple(lesson.shapes.multiple_of)),
            layout=lesson.shapes.count.layout,
        )
        seed = fresh_seed() if request.seed is None else request.seed
        timed = request.shape or lesson.shapes.timed or whole
        hidden = tuple(it for it in request.secret if is_countable(lesson, it))
        secret = tuple(it for it in request.secret if it not in hidden)
        device = request.device.grading() if request.graded else request.device
        if any("products_in_a_sum" in it.value.names for it in lesson.gates):
            device = device.counting_products()
        device = device.expecting(lesson.at(timed).data, timed, seed)
        plan = cls(
            request=request,
            lesson=lesson,
            gpu=request.gpu,
            device=device,
            seed=seed,
            timed_shape=timed,
            workshop=Workshop(request.course.architecture_of(lesson), device, request.gpu, lesson.needs),
            hidden=hidden,
            secret=secret,
            stub=_stub_of(lesson),
        )
        if request.graded:
            sample, alike = hidden_sample(lesson, seed), hidden_alike(lesson, seed)
            hidden = tuple(dict.fromkeys((*hidden, *hidden_and_counted(lesson, seed))))
            secret = (*secret, *hidden_checks(lesson, seed), *alike)
            plan = replace(
                plan,
                hidden=hidden,
                secret=tuple(it for it in secret if it not in hidden),  # counted shapes are checked anyway
                sample=sample,
                also=hidden_also(lesson, seed) if sample else (),
                tiles=hidden_tiles(lesson, seed),
                instead=hidden_instead(lesson, seed),
                alike=alike,
            )
        return replace(plan, kernels=tuple(plan._line_up()))

    @cached_property
    def words(self) -> frozenset[str] | None:
        """Return all words in the code of the kernel under test; None if it may use others, too."""
        path = self.kernels[0].file
        return names_in(read_source(path), path, self.lesson.include_dirs)

    @property
    def timer(self) -> Gpu | None:
        """Return what measures this lesson's kernels; None on the simulator, and for an answer that is not timed."""
        return None if self.lesson.data.untimed else self.device.timer

    def in_place_of_sample(self) -> tuple[LaunchPlan, ...]:
        """Return the launches that check and count the kernel whose blocks cannot be sampled."""
        planned = self.sample.beside if self.sample else ()
        shapes = (shape for shape in self.instead if shape not in planned)
        return tuple(self._launch(self.lesson, shape, "far", hidden=True) for shape in shapes)

    def hidden_launch(self, shape: Shape, purpose: Purpose, leading: Leading = ()) -> LaunchPlan:
        """Return one more launch of the lesson under test at a hidden shape."""
        return self._launch(self.lesson, shape, purpose, hidden=True, leading=leading)

    def kernel(
        self,
        role: Role,
        label: str,
        lesson: Lesson,
        path: Path | None,
        checked: tuple[Shape, ...] = (),
        hidden: tuple[Shape, ...] = (),
    ) -> KernelPlan:
        """Plan one kernel: checked on these shapes, counted on the counting shape, then on the hidden ones.

        All rows count the same work, that of the lesson under test; a lesson that cannot take its shape uses its own.
        """
        counting = self.lesson.shapes.count
        if lesson.shapes.refusal(counting) is not None:
            counting = lesson.shapes.count
        others = [shape for shape in dict.fromkeys(checked) if shape != counting]
        known = [self._launch(lesson, shape, "check") for shape in others if shape not in self.secret]
        counted = [self._launch(lesson, counting, "count", gaps=False)]
        counted += [self._launch(lesson, shape, "count", hidden=True) for shape in hidden if shape != counting]
        secret = [self._launch(lesson, shape, "check", hidden=True) for shape in others if shape in self.secret]
        launches = [*known, *counted, *secret]
        if role == "kernel" and self.sample is not None:
            launches += (self._launch(lesson, shape, "far", hidden=True) for shape in self.sample.beside)
            for tile in self.tiles:
                launches.append(replace(self._launch(lesson, tile.shape, "tile", hidden=True), tile=tile))
            for sample in (*self.also, self.sample):
                launches.append(replace(self._launch(lesson, sample.shape, "sample", hidden=True), sample=sample))
        elif role == "kernel":
            launches += self.in_place_of_sample()
        timing = self.request.estimating or self.timer is not None
        takes = timing and lesson.shapes.refusal(self.timed_shape) is None
        timed = self._launch(lesson, self.timed_shape, "time") if takes else None
        return KernelPlan(role, label, lesson, path, tuple(_with_turns(launches)), timed)

    def _launch(
        self,
        lesson: Lesson,
        shape: Shape,
        purpose: Purpose,
        hidden: bool = False,
        gaps: bool = True,
        leading: Leading = (),
    ) -> LaunchPlan:
        """Plan one launch. Known counters use the least gaps; gates may depend on a scalar being 0."""
        launched = lesson.at(shape, leading)
        return LaunchPlan(
            launched,
            shape,
            purpose,
            launched.grids(shape),
            hidden=hidden,
            gaps=gaps,
            next_scalars=purpose == "check" and (self.seed // PLAIN % 2 == 1) != (shape in self.secret),
            rare=hidden,
            sharp=shape == self._sharp,
            alike=self.alike.get(shape),
            leading=leading,
        )

    @property
    def one_block(self) -> LaunchPlan | None:
        """Return a launch of one block and one K tile, whose inputs each identify their element; None for a lesson of
        several launches, since one launch's memory does not show the whole."""
        if len(self.lesson.launches) > 1:
            return None
        shape = _one_tile(self.lesson)
        lesson = self.lesson.at(shape)
        return LaunchPlan(lesson, shape, "check", lesson.grids(shape), flat=True)

    @property
    def _sharp(self) -> Shape | None:
        """Return the largest shape of graded runs alone whose answer has digits to spare, to detect truncation."""
        shapes = (*self.secret, *(self.instead if self.sample is None else ()))
        return max(
            (it for it in shapes if it.k <= DIGITS and it not in self.alike), key=lambda it: it.m * it.n, default=None
        )

    def _line_up(self) -> Iterator[KernelPlan]:
        """Yield the kernel, then the rows beside it: the solution that this lesson starts from, and its own reference.

        The former is judged by this lesson's gates, not its own, to show the effect of the new idea.
        """
        request, course, lesson = self.request, self.request.course, self.lesson
        label = label_for(course, lesson, request.path)
        shapes = (*((request.shape,) if request.shape else lesson.shapes.check), *self.secret)
        yield self.kernel("kernel", label, lesson, request.path, shapes, self.hidden)
        previous = course.start_of(lesson) if request.beside and lesson.name in course.names else None
        if previous is not None:
            before = course.lesson(previous)
            yield self.kernel("previous", previous.replace("_", " ", 1), before, course.solution(before))
        if request.beside and label != "reference":
            yield self.kernel("reference", "reference", lesson, course.solution(lesson))


def _with_turns(launches: Iterable[LaunchPlan]) -> Iterator[LaunchPlan]:
    """Yield the launches, the hidden ones with the turn of each scalar among those where it matters. Two of three that
    are only checked have the scalars of this or of the next M, N and K so that most matter."""
    before: Counter[str] = Counter()
    checks = 0
    for launch in launches:
        if launch.hidden and launch.purpose == "check":
            both = [replace(launch, next_scalars=it) for it in (launch.next_scalars, not launch.next_scalars)]
            launch = (max if checks % 3 else min)(both, key=lambda it: sum(map(it.gives, SCALARS)))
            checks += 1
        mattering = [name for name in SCALARS if launch.hidden and not launch.sharp and launch.gives(name)]
        yield replace(launch, turns=tuple((name, before[name]) for name in mattering))
        before.update(mattering)


def label_for(course: Course, lesson: Lesson, path: Path) -> str:
    """Return a kernel file's name in the table and the ranges: ``reference``, ``stub``, ``bug`` or ``your kernel``."""
    solution = course.solution(lesson)
    if solution is not None and solution.resolve() == path.resolve():
        return "reference"
    others = {lesson.stub_path.resolve(): "stub", lesson.bug_path.resolve(): "bug"}
    return others.get(path.resolve(), "your kernel")


def _one_tile(lesson: Lesson) -> Shape:
    """Return the smallest shape of one block and one K tile, or of one cluster; else the smallest of the lesson."""
    whole = _tile_of(lesson)
    if lesson.shapes.refusal(whole) is None:
        whole = _tile_of(lesson.at(whole))  # the host may choose smaller ones for so little
    known = min(lesson.shapes.check or (lesson.shapes.count,), key=lambda shape: shape.m * shape.n * shape.k)
    if lesson.shapes.refusal(whole) is not None:
        return known
    few = max(1, _blocks(lesson, known))
    return whole if _blocks(lesson, whole) <= few else known


def _stub_of(lesson: Lesson) -> Stub:
    """Return the stub with the TODOs of the kernels that are launched."""
    if not lesson.stub_path.is_file():
        return Stub()
    return Stub.of(read_source(lesson.stub_path)).of_kernels([launch.entry for launch in lesson.launches])


def _blocks(lesson: Lesson, shape: Shape) -> int:
    return lesson.at(shape).grids(shape)[0].blocks


def _tile_of(lesson: Lesson) -> Shape:
    tile, steps = lesson.tile.defines, lesson.shapes.multiple_of
    m, n = lcm(tile.get("BM", 1), steps.m), lcm(tile.get("BN", 1), steps.n)
    depth = max(tile.get("BK", 1), steps.k, 8)
    return Shape(m, n, -(-depth // steps.k) * steps.k, layout=lesson.shapes.count.layout)
