"""What to run: as it was asked for (``RunRequest``), and with everything decided (``RunPlan``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from gemm_lessons.course.folder import Course
from gemm_lessons.course.hidden import hidden_and_counted, hidden_checks
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.devices.device import Device
from gemm_lessons.engine.hardware.sheets import GpuSpec
from gemm_lessons.engine.process.bounds import Bounds, affordable
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.problem import fresh_seed
from gemm_lessons.gemm.shapes import Shape, astuple
from gemm_lessons.running.builder import Workshop
from gemm_lessons.running.precomputed import Apart
from gemm_lessons.running.row_cache import KeptRows

ESTIMATE_SIZE = 4096  # M = N = K of the times in the table, unless the lesson says: no launch overhead or tail shows
DIGITS = 256  # of K, at most, where the last bit of sums is checked

Tell = Callable[[str], None]  # told what begins: "compile solution.cu", "check 96x64x80", ...


@dataclass(frozen=True)
class RunRequest:
    """What to run, on what.

    ``shape`` replaces the lesson's check shapes and is what the estimate is for; ``seed`` repeats an earlier run;
    ``beside`` adds the previous lesson's solution and the reference to the table; ``kept`` has their rows
    from earlier runs of this process; ``estimating`` times on the GPU of the data sheet. ``graded``: it is checked,
    counted and judged on hidden shapes, too, and checked on those that are ``secret``. ``bounds``: what it may use.
    ``apart``: who makes some of it meanwhile.
    """

    course: Course
    lesson: Lesson
    path: Path
    device: Device
    gpu: GpuSpec
    shape: Shape | None = None
    seed: int | None = None
    beside: bool = True
    kept: KeptRows | None = None
    estimating: bool = True
    graded: bool = False
    secret: tuple[Shape, ...] = ()
    bounds: Bounds = field(default_factory=lambda: Bounds(memory_bytes=affordable()))
    apart: Apart = field(default_factory=Apart)


@dataclass(frozen=True)
class RunPlan:
    """A run with everything decided. ``timed_shape`` is what estimates and measurements are for; on the ``hidden``
    shapes, which graded runs have, the kernel is counted, too, on the ``secret`` ones it is only checked."""

    course: Course
    lesson: Lesson
    device: Device
    gpu: GpuSpec
    seed: int
    timed_shape: Shape
    workshop: Workshop
    tell: Tell
    kept: KeptRows
    estimating: bool = True
    hidden: tuple[Shape, ...] = ()
    secret: tuple[Shape, ...] = ()
    apart: Apart = field(default_factory=Apart)

    @classmethod
    def of(cls, request: RunRequest, tell: Tell) -> RunPlan:
        """Raises ``ShapeError`` when the lesson does not allow the shape that was asked for."""
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
        hidden = hidden_and_counted(lesson, seed) if request.graded else ()
        secret = (*request.secret, *(hidden_checks(lesson, seed) if request.graded else ()))
        device = request.device.expecting(lesson.at(timed).data, timed, seed)
        return cls(
            course=request.course,
            lesson=lesson,
            device=device,
            gpu=request.gpu,
            seed=seed,
            timed_shape=timed,
            workshop=Workshop(request.course.architecture, device, request.gpu),
            tell=tell,
            kept=request.kept or KeptRows(),
            estimating=request.estimating,
            hidden=hidden,
            secret=tuple(it for it in secret if it not in hidden),  # what is counted is checked, too
            apart=request.apart,
        )

    @property
    def following(self) -> str:
        """The lesson that comes after this one, with its title; empty after the last, and where there is no course."""
        name = self.course.neighbour(self.lesson, +1) if self.lesson.name in self.course.names else None
        return "" if name is None else f"{name[:2]} ({self.course.lesson(name).title})"

    @property
    def sharp(self) -> Shape | None:
        """Of the secret shapes the largest one whose answer has digits to spare: nothing may be cut off there."""
        return max((it for it in self.secret if it.k <= DIGITS), key=lambda it: it.m * it.n, default=None)

    def counting_shape(self, lesson: Lesson) -> Shape:
        """The lesson's under test, so that all rows count the same work; a lesson that cannot take it uses its own."""
        shape = self.lesson.shapes.count
        return shape if lesson.shapes.refusal(shape) is None else lesson.shapes.count
