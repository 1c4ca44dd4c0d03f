"""A launch from outside: its arguments and its grid, and what every device hands back of it.

Everything downstream (verdict, hints, estimate, report) reads only these records, so it never needs to know which
device ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from gemm_lessons.elements import ELEMENTS, Element
from gemm_lessons.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np

Severity = Literal["error", "warning", "note"]

OWN_ARRAY = "a thread's own array"  # what findings call memory without __shared__
TENSOR_MAP_SIZE = 128  # bytes of a CUtensorMap (cuda.h)


# Short names used in lesson.toml gates and in hints -> the metric name of Nsight Compute (2025.3).
METRICS: Mapping[str, str] = {
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "shared_wavefronts_ideal": "memory_l1_wavefronts_shared_ideal",
    "shared_load_instructions": "smsp__inst_executed_op_shared_ld.sum",
    "shared_store_instructions": "smsp__inst_executed_op_shared_st.sum",
    "global_load_instructions": "smsp__inst_executed_op_global_ld.sum",
    "global_store_instructions": "smsp__inst_executed_op_global_st.sum",
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "warp_instructions": "smsp__inst_executed.sum",  # of the machine code, all kinds
    "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    # Counters that Nsight Compute has no single deterministic metric for; the prefix says who counted.
    "shared_load_bytes": "simulator__shared_load_bytes.sum",
    "shared_store_bytes": "simulator__shared_store_bytes.sum",
    "global_load_bytes": "simulator__global_load_bytes.sum",
    "global_store_bytes": "simulator__global_store_bytes.sum",
    "shared_instructions_128": "simulator__inst_executed_op_shared_128bit.sum",
    "global_instructions_128": "simulator__inst_executed_op_global_128bit.sum",
    "barriers": "simulator__barriers_per_block.max",
    "instructions": "simulator__ptx_inst_executed.sum",
    "blocks": "simulator__blocks.sum",
}
# Sums over every kind of access, for gates: Nsight Compute's own names leave out atomics, cp.async or ldmatrix. An
# atomic reads and writes; a cp.async reads global and writes shared memory.
TOTALS: Mapping[str, str] = {
    "global_accesses": "simulator__requests_global_all.sum",  # warps, unless every lane is switched off
    "global_bytes_read": "simulator__global_bytes_read_all.sum",
    "global_bytes_written": "simulator__global_bytes_written_all.sum",
    "global_sectors_read": "simulator__global_sectors_read_all.sum",
    "global_sectors_written": "simulator__global_sectors_written_all.sum",
    "shared_accesses": "simulator__requests_shared_all.sum",  # the same
    "shared_bytes_read": "simulator__shared_bytes_read_all.sum",
    "shared_bytes_written": "simulator__shared_bytes_written_all.sum",
    "global_bytes_waited_for": "simulator__global_bytes_waited_for.sum",  # with less than 128 multiply-adds before use
    "operations": "simulator__operations_floating_point.sum",  # of threads, a multiply-add two; in fp32 and fp64
    "shuffles": "simulator__inst_executed_shuffle.sum",  # warps; each brings a lane 4 bytes of another's
    # Of other units than the course's first lessons use; warps, but for dfma and sectors.
    "dfma": "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",  # threads
    "fp64_instructions": "smsp__inst_executed_pipe_fp64.sum",
    "dot_products": "simulator__inst_executed_dot_product.sum",  # dp4a, dp2a
    "hmma": "smsp__inst_executed_pipe_tensor_op_hmma.sum",  # tensor cores: f16, bf16, tf32; and some of half2
    "imma": "smsp__inst_executed_pipe_tensor_op_imma.sum",
    "dmma": "smsp__inst_executed_pipe_tensor_op_dmma.sum",
    "tensor_products": "simulator__multiply_adds_tensor.sum",  # of tensor cores, whatever the form
    "ldmatrix": "smsp__inst_executed_op_ldsm.sum",
    "stmatrix": "smsp__inst_executed_op_shared_stsm.sum",
    "async_copies": "smsp__inst_executed_op_ldgsts.sum",  # cp.async
    "global_reductions": "smsp__inst_executed_op_global_red.sum",  # atomics whose result nobody reads
    "global_reduction_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "texture_requests": "l1tex__t_requests_pipe_tex_mem_texture.sum",  # fetches from textures, warps
    "texture_sectors": "l1tex__t_sectors_pipe_tex_mem_texture.sum",
    "texture_bytes": "simulator__texture_bytes.sum",  # part of global_bytes_read
    "thread_instructions": "simulator__thread_inst_executed.sum",  # of the machine code, all kinds
    # As many as there were, if every thread of a launch executed as many as the one that executes the most.
    "thread_instructions_if_equal": "simulator__thread_inst_executed_if_equal.sum",
    "textures_of_a_warp": "simulator__textures_per_warp.max",  # different ones, of the warp that fetches from the most
    # What reading registers costs multiply-adds in fp32, as ptxas wrote it down (``machinecode/registers.py``); warps.
    "reuse_flags": "simulator__operands_kept_for_reuse.sum",
    "register_bank_conflicts": "simulator__register_bank_conflicts.sum",  # clocks
}
COUNTED: Mapping[str, str] = {**METRICS, **TOTALS}  # what gates may name
# What tables show: of these totals only those that are not zero.
BESIDE = ("texture_requests", "texture_sectors", "reuse_flags", "register_bank_conflicts")
TABLED: Mapping[str, str] = {**METRICS, **{name: TOTALS[name] for name in BESIDE}}
ON_PTX = frozenset(("barriers", "blocks", "instructions"))  # always exact: the others are counted on machine code


@dataclass(frozen=True)
class Buffer:
    """One kernel argument that lives in global memory.

    ``array`` is C-contiguous; the device reads it before the launch and writes it back after, when ``output`` is set.
    """

    name: str
    array: np.ndarray[Any, Any]
    output: bool = False
    initialised: bool = True  # False: as fresh from the allocator; reading it before writing it is reported


@dataclass(frozen=True)
class Pointer:
    """One kernel argument that points into a buffer, ``offset`` bytes from its start. Several may share a buffer."""

    name: str
    buffer: Buffer
    offset: int


@dataclass(frozen=True)
class Scalar:
    """One kernel argument passed by value: a NumPy scalar, or the raw bytes of a struct."""

    name: str
    value: np.generic | bytes


@dataclass(frozen=True)
class StructWithBuffers:
    """A struct passed by value that holds pointers: its bytes, and which buffer's address goes in at which offset."""

    name: str
    raw: bytes
    pointers: Mapping[int, Buffer | Pointer]


@dataclass(frozen=True)
class Texture:
    """What a kernel reads through a ``cudaTextureObject_t``; on a GPU only what ``tex1Dfetch`` reads (``is_linear``).

    ``array`` is (width,), (height, width) or (depth, height, width), behind an axis of layers when ``layered``, before
    one of 2 or 4 ``channels``. ``address`` is clamp, border, wrap or mirror, or one of them for each of x, y, z;
    ``filter`` point or linear; ``read`` element or normalized_float. ``simulate`` fills in the name.
    """

    array: np.ndarray[Any, Any]
    channels: int = 1
    filter: str = "point"
    address: str | tuple[str, ...] = "clamp"
    normalized: bool = False
    read: str = "element"
    layered: bool = False
    name: str = ""

    @property
    def is_linear(self) -> bool:
        """Plain memory, read element by element: one dimension, nothing filtered or converted."""
        plain = self.filter == "point" and self.read == "element" and not (self.normalized or self.layered)
        return plain and self.array.ndim == (1 if self.channels == 1 else 2)

    def addresses(self, dims: int) -> tuple[str, ...]:
        """The mode of each of ``dims`` coordinates."""
        return (self.address,) * dims if isinstance(self.address, str) else self.address[:dims]


@dataclass(frozen=True)
class Surface:
    """What a kernel reads and writes through a ``cudaSurfaceObject_t``; ``array`` as for ``Texture``. On the simulator
    alone. It is written back after the launch unless it is read-only.
    """

    array: np.ndarray[Any, Any]
    channels: int = 1
    layered: bool = False
    name: str = ""


@dataclass(frozen=True)
class TensorMap:
    """What a kernel takes as ``const __grid_constant__ CUtensorMap``: bulk copies cut boxes out of an array by it.

    ``array`` has one to three dimensions; its rows may be further apart than they are long (a view), but the elements
    of a row follow each other. ``box`` has a size for each axis of the array, in its order; coordinates in a kernel
    come in the opposite one, as CUDA has them. ``swizzle``: 0, 32, 64 or 128 bytes. ``element``: the type, where the
    array's own does not tell. ``pointer``: where the array begins; ``simulate`` fills it in, and the name.
    """

    array: np.ndarray[Any, Any]
    box: tuple[int, ...]
    swizzle: int = 0
    element: str = ""
    name: str = ""
    pointer: Buffer | Pointer | None = None

    @property
    def type(self) -> Element:
        """Of an element. Raises ``ValueError``."""
        name = self.element or self.array.dtype.name
        if name not in ELEMENTS or name == "tf32":
            raise ValueError(f"{self.name}: a tensor map of {name} is not supported")
        return ELEMENTS[name]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the array, innermost dimension first."""
        return tuple(reversed(self.array.shape))

    @property
    def strides_behind(self) -> tuple[int, ...]:
        """Bytes from one to the next along each dimension but the innermost, which comes first."""
        return tuple(reversed(self.array.strides[:-1]))

    @property
    def described(self) -> dict[str, Any]:
        """What ``cuTensorMapEncodeTiled`` is told of it, but for the address."""
        name = self.type.name
        name = {"int8": "uint8", "int16": "uint16"}.get(name, "uint8" if name.startswith("float8") else name)
        sizes, strides = self.sizes, self.strides_behind
        return {"element": name, "sizes": sizes, "strides": strides, "box": self.box[::-1], "swizzle": self.swizzle}

    def check(self) -> None:
        """Raises ``ValueError`` for what ``cuTensorMapEncodeTiled`` refuses, or nobody here supports."""
        array, size = self.array, self.type.size
        if not 1 <= array.ndim <= 3 or len(self.box) != array.ndim or 0 in array.shape:
            raise ValueError(
                f"{self.name}: a tensor map is of one to three dimensions, with a size of the box for each"
            )
        if array.strides[-1] != size or array.dtype.itemsize != size:
            raise ValueError(f"{self.name}: the elements of a row must follow each other")
        if any(stride % 16 or stride <= 0 for stride in self.strides_behind):
            raise ValueError(
                f"{self.name}: rows must begin at multiples of 16 bytes, not {self.strides_behind[0]} apart"
            )
        if (offset_of(self.pointer) if self.pointer is not None else 0) % 16:
            raise ValueError(f"{self.name}: the array of a tensor map must begin at a multiple of 16 bytes")
        row = self.box[-1] * size
        if not all(1 <= extent <= 256 for extent in self.box) or row % 16:
            raise ValueError(
                f"{self.name}: a box of {' x '.join(map(str, self.box))} elements cannot be copied: each size may be"
                f" 1 to 256, and a row of it must be a multiple of 16 bytes, not {row}"
            )
        if self.swizzle not in (0, 32, 64, 128) or (self.swizzle and row > self.swizzle):
            raise ValueError(
                f"{self.name}: a swizzle is of 32, 64 or 128 bytes, and a row of the box, {row} bytes, no longer"
            )
        if self.swizzle and row != self.swizzle:
            raise ValueError(f"{self.name}: a row of the box, {row} bytes, shorter than the swizzle is not supported")


Argument = Buffer | Pointer | Scalar | StructWithBuffers | Texture | Surface | TensorMap


def buffer_of(argument: Buffer | Pointer) -> Buffer:
    """What ``argument`` points into."""
    return argument.buffer if isinstance(argument, Pointer) else argument


def offset_of(argument: Buffer | Pointer) -> int:
    """How many bytes from its buffer's start ``argument`` points."""
    return argument.offset if isinstance(argument, Pointer) else 0


def buffers_of(arguments: Iterable[Argument]) -> list[Buffer]:
    """The arrays behind all pointers of ``arguments``, in their order."""
    found: list[Buffer] = []
    for argument in arguments:
        if isinstance(argument, (Buffer, Pointer)):
            found.append(buffer_of(argument))
        elif isinstance(argument, TensorMap) and argument.pointer is not None:
            found.append(buffer_of(argument.pointer))
        elif isinstance(argument, StructWithBuffers):
            found.extend(buffer_of(pointer) for pointer in argument.pointers.values())
    return found


@dataclass(frozen=True)
class HostVariable:
    """A ``__constant__`` or ``__device__`` variable that the host sets before the launch, by its name in the source.

    A ``__device__`` variable is read back into ``array`` after it. ``given`` False: it keeps the value that the source
    gives it, and is only read back.
    """

    name: str
    array: np.ndarray[Any, Any]
    given: bool = True


@dataclass(frozen=True)
class Grid:
    """How a kernel is launched: blocks, threads per block (x, y, z), bytes of dynamic shared memory, and blocks of a
    cluster (None: the launch asks for none)."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int = 0
    cluster: tuple[int, int, int] | None = None

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class Finding:
    """Something wrong (or suspicious) that the device saw, in the words shown to the learner.

    ``kind`` is a stable identifier such as ``out_of_bounds``, ``misaligned``, ``race``, ``uninitialised``,
    ``unset`` (a register), ``divergent_barrier``, ``deadlock``, ``timeout``, ``trap``, ``illegal_access``. ``line`` and
    ``other_line`` count from 1 in ``file`` (``other_line`` in ``other_file``, where that is another one); ``None`` when
    the compiler left no line. ``detail`` tells findings of one
    kind apart for whoever advises: of a race, which memory and what the two accesses do (``shared store load``).
    """

    kind: str
    severity: Severity
    message: str
    line: int | None = None
    other_line: int | None = None
    count: int = 1
    file: str = ""
    detail: str = ""
    other_file: str = ""


@dataclass(frozen=True)
class LineCount:
    """One counter of one source line. ``ideal`` is the smallest value that the same instructions could have."""

    line: int
    metric: str
    value: int
    ideal: int | None = None
    file: str = ""


@dataclass(frozen=True)
class Conflict:
    """The worst bank conflict of one source line, as an example to show.

    ``ways`` is wavefronts per ideal wavefront of the worst access; ``lanes`` collide on ``bank`` with different
    words; ``addresses`` are their byte offsets in shared memory, in the order of ``lanes``.
    """

    line: int
    store: bool
    width: int
    ways: int
    bank: int
    lanes: tuple[int, ...]
    addresses: tuple[int, ...]
    excess_wavefronts: int
    array: str = ""
    file: str = ""


@dataclass(frozen=True)
class Counters:
    """What one launch did, counted. ``totals`` is keyed by the long metric names of ``COUNTED``."""

    totals: Mapping[str, int] = field(default_factory=dict)
    lines: Sequence[LineCount] = ()
    conflicts: Sequence[Conflict] = ()
    opcodes: Mapping[str, int] = field(default_factory=dict)  # PTX opcode -> executed warp instructions
    inexact: Mapping[str, str] = field(default_factory=dict)  # metric name -> why Nsight Compute may count otherwise
    uncounted: Mapping[str, str] = field(default_factory=dict)  # short name of a counter -> why no gate trusts it
    obstacle: str = ""  # why the machine code could not be counted, with its line: then no gate trusts a number

    def get(self, short: str) -> int:
        """The total of a counter by its short name in ``COUNTED`` (0 when it was not counted)."""
        return self.totals.get(COUNTED[short], 0)


@dataclass(frozen=True)
class Printed:
    """What a kernel printed, by block and thread: the text of the first ``shown`` of ``calls`` calls of ``printf``."""

    text: str
    shown: int
    calls: int


@dataclass(frozen=True)
class Launched:
    """The outcome of one launch. ``fault`` ended it early; ``findings`` did not."""

    counters: Counters
    findings: Sequence[Finding] = ()
    fault: Finding | None = None
    time_us: float | None = None  # measured on a GPU; always None on the simulator
    printed: Printed | None = None  # on the simulator alone


def in_a_row(launches: Sequence[Launched]) -> Launched:
    """Launches that followed each other, as one: counts are added, the fault that ended them is that of the last."""
    if len(launches) == 1:
        return launches[0]
    findings = [finding for launched in launches for finding in launched.findings]
    told = [launched.printed for launched in launches if launched.printed is not None]
    printed = Printed("".join(it.text for it in told), sum(it.shown for it in told), sum(it.calls for it in told))
    counters = _added([launched.counters for launched in launches])
    return Launched(counters, findings, launches[-1].fault, printed=printed if told else None)


def _added(counters: Sequence[Counters]) -> Counters:
    totals: dict[str, int] = {}
    opcodes: Counter[str] = Counter()
    lines: dict[tuple[str, int, str], LineCount] = {}
    for one in counters:
        for name, value in one.totals.items():
            seen = totals.get(name, 0)
            totals[name] = max(seen, value) if name.endswith(".max") else seen + value
        opcodes.update(one.opcodes)
        for line in one.lines:
            key = (line.file, line.line, line.metric)
            before = lines.get(key)
            lines[key] = line if before is None else _sum_of(before, line)
    return Counters(
        totals,
        tuple(lines.values()),
        tuple(conflict for one in counters for conflict in one.conflicts),
        dict(opcodes),
        {name: why for one in counters for name, why in one.inexact.items()},
        {name: why for one in counters for name, why in one.uncounted.items()},
        next((one.obstacle for one in counters if one.obstacle), ""),
    )


def _sum_of(a: LineCount, b: LineCount) -> LineCount:
    ideal = None if a.ideal is None or b.ideal is None else a.ideal + b.ideal
    return replace(a, value=a.value + b.value, ideal=ideal)
