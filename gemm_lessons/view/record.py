"""Everything that a page shows: for each kernel its accesses, owners and timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from gemm_lessons.engine import LineCount
from gemm_lessons.engine.estimate import Recording
from gemm_lessons.engine.pictures import Request, Roles, Tiles, Timeline, WarpProduct
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.running import Row, RunOutcome
from gemm_lessons.view.owners import Owners

if TYPE_CHECKING:
    from gemm_lessons.engine.inspection import Inspection


@dataclass(frozen=True)
class Place:
    """The layout of an array, to name its elements by their bytes. ``strides``: of each index, in elements."""

    name: str
    element_bytes: int
    strides: tuple[int, ...]


Part = Literal["requests", "timeline"]


@dataclass(frozen=True)
class Side:
    """One kernel. ``counts`` are its counters for the file's own lines, ``requests`` the memory requests of block 0's
    warps; both are for ``size``. Missing parts are None or empty, and ``missing`` says why. ``notes``: what else to
    know."""

    row: Row
    size: str  # of the problem or the launch, in words
    threads: int  # per block
    counts: tuple[LineCount, ...]
    requests: tuple[Request, ...] = ()
    places: tuple[Place, ...] = ()
    owners: Owners | None = None
    products: tuple[WarpProduct, ...] = ()  # of tensor cores
    tiles: Tiles = Tiles()
    recording: Recording | None = None
    timeline: Timeline | None = None
    played: str = ""  # the size of the timeline's
    roles: Roles | None = None  # of a kernel with mbarriers
    missing: Mapping[Part, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def requests_of(self, line: int) -> tuple[Request, ...]:
        """Return the requests of one line of the kernel file, the most wasteful first. If all requests are in lines of
        other files, such as those of a line table, that of such a line."""
        own = any(it.file == self.row.path for it in self.requests)
        return tuple(it for it in self.requests if it.line == line and (it.file == self.row.path or not own))


@dataclass(frozen=True)
class Dot:
    """A kernel in the roofline: operations per byte of the path to shared memory and L1, and TFLOP/s."""

    label: str
    flop_per_byte: float
    tflops: float


@dataclass(frozen=True)
class Roofline:
    """The roofline at ``shape`` on ``gpu``; ``peak`` in TFLOP/s, ``bandwidth`` of shared memory and L1 in TB/s."""

    gpu: str
    shape: Shape
    peak: float
    bandwidth: float
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class View:
    """A run of a lesson, or a launch of any kernel, with its pictures: ``sides[0]`` is the kernel under test."""

    outcome: RunOutcome | Inspection
    sides: tuple[Side, ...]
    roofline: Roofline | None = None
