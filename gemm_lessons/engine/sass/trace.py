"""Trace of a few blocks: the instructions that every warp executes, and the memory traffic of each access.

    Compiled.sass + the blocks' addresses -> Trace        for ``timeline``, which simulates it on a multiprocessor

ptxas writes into every instruction of Volta and later when the next one may issue and which scoreboards it waits for
(``Control``), because the hardware does not check. So dependences are read, not guessed.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from gemm_lessons.engine.compiler import elf
from gemm_lessons.engine.costs import banks, tally
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.events import WARP, Access
from gemm_lessons.engine.machine.memory import GlobalMemory, parameter_block
from gemm_lessons.engine.machine.special import clustered
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Argument, Grid, TensorMap, buffers_of
from gemm_lessons.engine.sass import Code, prepare, registers
from gemm_lessons.engine.sass.divisions import Undecided, may_be_slow
from gemm_lessons.engine.sass.flow import SIGNALS, TEXTURE, TO_OTHERS, dimensions
from gemm_lessons.engine.sass.lanes import SHARED_WINDOW, Geometry, launch_constants
from gemm_lessons.engine.sass.long_loops import cut
from gemm_lessons.engine.sass.memory_contents import MemoryBounds, Store, StoredHere
from gemm_lessons.engine.sass.operand_fetch import Fetch
from gemm_lessons.engine.sass.operands import Decoded, Memory, Operand, Uncountable, unknown_form
from gemm_lessons.engine.sass.planning import MOVED, OWN, Plan
from gemm_lessons.engine.sass.reach import Reaching, Sharing, compared
from gemm_lessons.engine.sass.textures import Texels, texels_of
from gemm_lessons.engine.sass.walker import BasicBlock, MemoryUse, Step, Walker

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled
    from gemm_lessons.engine.ptx.records import Kernel

INSTRUCTION_BYTES = 16
CLUSTER = ".reqnctapercluster"  # in PTX, if the kernel and not its launch gives the size of a cluster
CONTROL_BIT = 105  # of the 128-bit instruction
SCOREBOARDS = 6
LOCAL = ("LDL", "STL")  # accesses to local memory
BOUNDED = frozenset("LDG STG LDS STS LDSM STSM ATOMG ATOMS RED REDG".split())  # whose addresses are all of one memory
STACK = ("R", 1)  # the register that points to it
SECTOR_LANES = 8  # whose words are in one of its sectors
LINE_SECTORS = 4  # of 32 bytes, in a line of 128
STRONG = ".STRONG"  # of accesses that other threads must see, such as volatile ones
SPREAD, GOLDEN = 16, 0.6180339887  # blocks whose work is compared, and the step between them / the grid
NEAR = 0.05  # part of the average work within which a block counts as average
ParsedKernel = Callable[[], "Kernel"]  # PTX, parsed when it is needed
Kind = Literal["made", "arrived", "awaited", "met", "passed", "sent"]
# SYNCS operands. Init: ``MOST_ARRIVALS`` minus the number of arrivals, in bits 1 to 20. Arrive: announces bytes, except
# A1T0. Wait: the parity of the phase is the top bit.
SIGNAL_KINDS: Mapping[str, Kind] = {"EXCH": "made", "ARRIVE": "arrived", "PHASECHK": "awaited"}
SIGNAL_MODIFIERS = frozenset("EXCH 64 ARRIVE TRANS64 A1T0 RED PHASECHK TRYWAIT".split())
MOST_ARRIVALS = 1 << 20
MASK_BIT = 16  # of the register with a multicast's mask of ranks


@dataclass(frozen=True)
class Control:
    """Scheduling fields of an instruction.

    ``stall``: clocks until the warp's next instruction. ``sets`` and ``reads``: scoreboards that are busy until the
    result is available, or until the sources are read (None: none). ``waits``: scoreboards that must be free first.
    Layout: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018), section 2.1; the
    same up to Hopper.
    """

    stall: int
    sets: int | None
    reads: int | None
    waits: tuple[int, ...]


@dataclass(frozen=True)
class Traffic:
    """One warp's access.

    Shared: ``passes`` are wavefronts, ``ideal`` of them unavoidable. Remote (shared memory of other blocks): ``passes``
    are lines of 128 bytes. Local, where lanes may have indices of their own: lines, and sectors ``written``. Global:
    ``passes`` are 128-byte lines (of a texture fetch, per request), ``sectors`` the numbers of the 32-byte sectors;
    ``partial``: it stores less than whole sectors; ``banked``: wavefronts of a load in L1; ``rounds``: of an atomic,
    the most lanes at one address of each sector. A copy to shared memory also has the wavefronts ``written`` there, and
    whether it bypasses L1 (``past``). A ``box`` copied by TMA has the right number of sectors, but not their true
    numbers; ``which``: its tensor map and coordinates; ``zeros``: it is outside of the array. A box copied into shared
    memory has the mbarrier that it signals, and ``to``: the ranks of the blocks of the cluster that get it (empty: its
    own block).
    """

    space: Literal["shared", "remote", "global", "local"]
    load: bool
    passes: int
    ideal: int
    sectors: Sequence[int] = ()
    written: int = 0
    past: bool = False
    barrier: int | None = None
    box: bool = False
    which: tuple[int, ...] = ()
    to: tuple[int, ...] = ()
    zeros: bool = False
    rounds: Sequence[int] = ()
    partial: bool = False
    banked: int = 0
    strong: bool = False

    @property
    def even(self) -> int:
        """Return what ``written`` would be without bank conflicts."""
        return min(self.written, math.ceil(len(self.sectors) / LINE_SECTORS))

    @property
    def atomic(self) -> bool:
        """Whether it is executed by L2."""
        return bool(self.rounds)

    @property
    def delivered(self) -> int:
        """Return the sectors that multiprocessors receive or send: those of the box for each block of a multicast."""
        return len(self.sectors) * max(1, len(self.to))


@dataclass(frozen=True)
class Signal:
    """One warp's operation on the mbarrier at an address of shared memory, or on the named barrier of a number.

    At an mbarrier: "made" initialises it for ``arrivals`` per phase; "arrived": ``arrivals`` threads arrive and
    announce ``bytes``; "awaited": a warp waits for the phase of ``parity``; "sent": ``arrivals`` threads send ``bytes``
    that report to it. At a named barrier of ``arrivals`` threads: "met": a warp waits; "passed": it arrives without
    waiting. ``to``: by rank, how many threads arrive at the mbarrier of each block of the cluster (empty: all in the
    own block), or how many bytes are sent there.
    """

    kind: Kind
    barrier: int
    arrivals: int = 0
    bytes: int = 0
    parity: int = 0
    to: tuple[int, ...] = ()


Touch = Traffic | Signal
AnyWalker = TypeVar("AnyWalker", bound=Walker)
Followed = TypeVar("Followed")


@dataclass(frozen=True)
class Trace:
    """Per warp, block by block: (instruction's index, access or None). ``cluster``: its number of blocks, by rank.
    ``local`` and ``shared``: bytes of a thread's local memory, and of a block's shared memory."""

    code: tuple[Decoded, ...]
    control: tuple[Control, ...]
    reads: tuple[tuple[int, int], ...]  # per instruction: registers of each bank that a multiply-add reads
    warps: tuple[tuple[tuple[int, Touch | None], ...], ...]
    warps_per_block: int
    cluster: int = 1
    local: int = 0
    shared: int = 0

    @property
    def uses_local_memory(self) -> bool:
        """Whether threads have arrays or spilled registers in memory."""
        return any(it.name in LOCAL for it in self.code)

    @property
    def waits_at_barriers(self) -> bool:
        """Whether warps of a block wait for each other."""
        return any(it.name == "BAR" for it in self.code)


class TooLong(Uncountable):
    """The trace would be longer than the caller allows."""


class LeavesMemory(Uncountable):
    """A traced block accesses no memory that it has: the launch would fail, so it has no time."""


@dataclass(frozen=True)
class SampledTrace:
    """Some blocks of a launch, traced: all of their execution, or that without most iterations of a long loop.

    ``short`` has half of the iterations that ``long`` has (None: nothing was left out). The rest is ``beyond`` times
    the difference of both. ``work``: instructions of the average block / those of a traced block; ``longest``: those of
    the longest block. ``first``: the first of the traced blocks.
    """

    long: Trace
    short: Trace | None = None
    beyond: float = 0.0
    work: float = 1.0
    longest: float = 1.0
    first: int = 0

    def whole(self, quantity: Callable[[Trace], float]) -> float:
        """Return a quantity of the traced blocks' whole execution that grows by each iteration."""
        long = quantity(self.long)
        return long if self.short is None else long + self.beyond * max(long - quantity(self.short), 0.0)


def controls(compiled: Compiled) -> tuple[Control, ...]:
    """Return the scheduling fields of every instruction of a kernel, in the order of ``compiled.sass``. Raise
    ``Uncountable`` for a kernel that calls device functions."""
    name = f".text.{compiled.entry}"
    text = next((part.data for part in elf.sections(compiled.cubin) if part.name == name), b"")
    if len(text) != INSTRUCTION_BYTES * len(compiled.sass):
        raise Uncountable("the kernel calls device functions")
    return tuple(_control(text[at : at + INSTRUCTION_BYTES]) for at in range(0, len(text), INSTRUCTION_BYTES))


def _control(instruction: bytes) -> Control:
    low, high = struct.unpack("<QQ", instruction)
    bits = (high << 64 | low) >> CONTROL_BIT
    sets, reads, waits = bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63
    return Control(
        stall=bits & 15,
        sets=sets if sets < SCOREBOARDS else None,
        reads=reads if reads < SCOREBOARDS else None,
        waits=tuple(number for number in range(SCOREBOARDS) if waits >> number & 1),
    )


@dataclass(frozen=True)
class Traceable:
    """A kernel whose machine code can be followed: decoded once, traced at any shape."""

    code: Code
    plan: Plan
    kernel: Kernel
    control: tuple[Control, ...]
    reads: tuple[tuple[int, int], ...]
    shared_bytes: int

    @property
    def instructions(self) -> tuple[Decoded, ...]:
        """The kernel's machine code."""
        return self.plan.program.code

    def trace(
        self,
        grid: Grid,
        arguments: Sequence[Argument],
        blocks: int,
        memory: Callable[[], GlobalMemory] | None = None,
        most: int | None = None,
        *,
        only_boxes: bool = False,
    ) -> Trace:
        """Trace the first ``blocks`` of a launch, whole clusters of them.

        ``memory`` returns global memory before the launch, for a kernel whose source has variables there.
        ``only_boxes``: without the accesses of its threads. Raise ``Uncountable``, and ``TooLong`` if the blocks
        execute more than ``most`` warp instructions.
        """
        launch = self._launch(grid, arguments, memory or (lambda: GlobalMemory(buffers_of(arguments), [])))
        geometry = Geometry(launch.grid, 0, min(blocks, launch.grid.blocks))
        try:
            return launch.trace(geometry, most, only_boxes)
        except Undecided:
            return replace(launch, plan=self._full_divisions).trace(geometry, most, only_boxes)

    def sample(
        self, grid: Grid, arguments: Sequence[Argument], blocks: int, memory: Callable[[], GlobalMemory], most: int
    ) -> SampledTrace:
        """Trace ``blocks`` consecutive blocks of a launch, around one with average work; of a launch in clusters, the
        first.

        An execution of more than ``most`` warp instructions is cut, see ``long_loops``. Divisions take their fast path
        where the data are not known. Raise ``Uncountable``, and ``TooLong`` if no loop can be cut.
        """
        return self._tried(self._launch(grid, arguments, memory), lambda it: it.sample(blocks, most))

    def reach(
        self, grid: Grid, arguments: Sequence[Argument], memory: Callable[[], GlobalMemory], base: int
    ) -> Sharing:
        """Return what blocks all over the grid touch, and what block ``base`` shares with others. Raise
        ``Uncountable``."""
        return self._tried(self._launch(grid, arguments, memory), lambda it: it.reach(base))

    def _tried(self, launch: _Launch, follow: Callable[[_Launch], Followed]) -> Followed:
        """Follow a launch, with full divisions if they decide, with fast ones if their data are not known, with what
        threads have themselves stored if that decides."""
        try:
            return follow(launch)
        except TooLong:
            raise
        except Undecided:
            return follow(replace(launch, plan=self._full_divisions))
        except Uncountable as reason:
            if may_be_slow(self.instructions):
                try:
                    return follow(replace(launch, plan=self.code.with_fast_divisions))
                except StoredHere:
                    pass
            if not isinstance(reason, StoredHere):
                raise
            try:
                own = self.code.with_own_stores.plan
                assert own is not None
                return follow(replace(launch, plan=own))
            except TooLong:
                raise
            except Uncountable:
                raise reason from None

    def _launch(self, grid: Grid, arguments: Sequence[Argument], memory: Callable[[], GlobalMemory]) -> _Launch:
        return _Launch(self, self.plan, clustered(self.kernel, grid), arguments, memory)

    @property
    def _full_divisions(self) -> Plan:
        plan = self.code.with_full_divisions.plan
        assert plan is not None
        return plan


@dataclass(frozen=True)
class _Launch:
    """A traceable kernel with its grid and arguments. ``memory`` returns global memory before the launch."""

    kernel: Traceable
    plan: Plan
    grid: Grid
    arguments: Sequence[Argument]
    memory: Callable[[], GlobalMemory]

    def trace(
        self, geometry: Geometry, most: int | None, only_boxes: bool = False, bounds: MemoryBounds | None = None
    ) -> Trace:
        """Trace the blocks of ``geometry``; ``bounds``: they must not leave these."""
        return self._of(self._run(_BoxRecorder if only_boxes else _Recorder, geometry, most=most, bounds=bounds))

    @property
    def _bounds(self) -> MemoryBounds:
        kernel = self.kernel
        return MemoryBounds(self.memory(), kernel.code.shared_origin, kernel.shared_bytes + self.grid.dynamic_shared)

    def sample(self, blocks: int, most: int) -> SampledTrace:
        """See ``Traceable.sample``."""
        grid = self.grid
        launch = self if self.plan.spaces else replace(self, memory=cache(self.memory))  # nothing is stored
        outline, first = None, 0
        if math.prod(grid.cluster or (1,)) == 1:
            everywhere = self._everywhere
            chosen = tuple(sorted({0, *everywhere, grid.blocks - 1}))
            outline = launch._run(_Outline, Geometry(grid, 0, len(chosen), chosen=chosen))
            outline.spread = np.isin(chosen, everywhere)
            first = everywhere[outline.average] // blocks * blocks
            first = max(min(first, (grid.blocks // blocks - 1) * blocks), 0)
        geometry = Geometry(grid, first, min(blocks, grid.blocks - first))
        try:
            trace = launch.trace(geometry, most, False, launch._bounds)
            return SampledTrace(trace, None, 0.0, *_work(outline, geometry, sum(map(len, trace.warps))), first)
        except TooLong:
            whole = launch._run(_Outline, geometry)
        parts = cut(whole.steps, whole.weights, most)
        if parts is None:
            raise TooLong(f"more than {most:,} warp instructions")
        recorder = launch._run(_Recorder, geometry, kept=parts.long, bounds=launch._bounds)
        short, long = self._of(recorder, parts.short[parts.long].tolist()), self._of(recorder)
        return SampledTrace(long, short, parts.beyond, *_work(outline, geometry, sum(whole.weights)), first)

    @property
    def _everywhere(self) -> tuple[int, ...]:
        blocks = self.grid.blocks
        return tuple(sorted({int((number + 0.5) * GOLDEN % 1 * blocks) for number in range(SPREAD)}))

    def reach(self, base: int) -> Sharing:
        """See ``Traceable.reach``."""
        chosen = tuple(sorted({*self._everywhere, *compared(base, self.grid.grid)}))
        walker = self._run(Reaching, Geometry(self.grid, 0, len(chosen), chosen=chosen))
        return walker.reach(base, self._everywhere, self.grid.grid)

    def _of(self, recorder: _Recorder, kept: Sequence[bool] | None = None) -> Trace:
        grid, kernel = self.grid, self.kernel
        cluster = math.prod(grid.cluster or (1,))
        return Trace(
            kernel.instructions, kernel.control, kernel.reads, recorder.warps(kept), -(-grid.threads // WARP), cluster,
            kernel.code.local_bytes, kernel.shared_bytes + grid.dynamic_shared,
        )  # fmt: skip

    def _run(self, walker: Callable[..., AnyWalker], geometry: Geometry, **options: Any) -> AnyWalker:
        """Follow the blocks of ``geometry`` with a new walker, and return it."""
        kernel, arguments, grid, plan, memory = self.kernel, self.arguments, self.grid, self.plan, self.memory()
        code = kernel.code
        parameters = code.placed(kernel.kernel, parameter_block(kernel.kernel, arguments, memory))
        boxes = {place: it for place, it in zip(code.places, arguments, strict=True) if isinstance(it, TensorMap)}
        constants = {
            **(code.constants_in(memory) if code.variables.there else code.constants),
            **launch_constants(grid, code.parameter_offset, parameters, kernel.kernel.target, boxes_only=bool(boxes)),
        }
        shared = kernel.shared_bytes + grid.dynamic_shared
        if plan.moved:
            raise Uncountable(MOVED)
        store = Store(memory, shared, code.local_bytes, own_stores=OWN in plan.spaces) if plan.spaces else None
        made = walker(plan, geometry, constants, store, texels_of(arguments), boxes, **options)
        made.run()
        return made


def _work(outline: _Outline | None, geometry: Geometry, executed: int) -> tuple[float, float]:
    """Return warp instructions of the average and of the longest block, each / those of a block of ``geometry``, which
    executed ``executed``."""
    if outline is None or not executed:
        return 1.0, 1.0
    traced = executed / geometry.blocks
    return float(outline.by_block[outline.spread].mean() / traced), float(outline.by_block.max() / traced)


def blocks_of_cluster(compiled: Compiled, parsed: ParsedKernel, grid: Grid) -> int:
    """Return the blocks of a cluster of a launch, by its grid or its kernel."""
    grid = clustered(parsed(), grid) if CLUSTER in compiled.ptx else grid
    return math.prod(grid.cluster or (1,))


def traceable(compiled: Compiled, kernel: Kernel) -> Traceable:
    """Return the traceable kernel. Raise ``Uncountable`` if the machine code cannot be followed."""
    code = prepare(compiled)
    plan = code.plan
    if plan is None:
        raise Uncountable(code.obstacle)
    if any(d.name in SIGNALS for d in plan.program.code):
        plan = code.with_mbarriers
    reads = registers.reads(plan.program.code)
    return Traceable(code, plan, kernel, controls(compiled), reads, compiled.resources.shared_bytes)


class _Recorder(Walker):
    """Records, per basic block, the warps that executed it and the costs of its accesses."""

    def __init__(
        self,
        plan: Plan,
        geometry: Geometry,
        constants: dict[int, bytes],
        store: Store | None,
        textures: Mapping[int, Texels],
        boxes: Mapping[int, TensorMap],
        most: int | None = None,
        kept: Sequence[bool] | None = None,
        bounds: MemoryBounds | None = None,
    ) -> None:
        self._bounds = None if geometry.grid.cluster else bounds  # shared memory of other blocks is no other space
        self._cluster = math.prod(geometry.grid.cluster or (1,))  # blocks
        self._boxes = boxes  # by the place of the parameter in the machine code
        self._kept, self._step_number, self._quiet = kept, -1, False  # which basic blocks to record; None: all
        self._most, self._executed = most, 0  # warp instructions
        self._log: list[tuple[int, Array | None, dict[int, list[Any]]]] = []  # of Touch | None
        self._written: dict[int, list[int]] = {}  # by cp.async, the shared side of its last execution
        super().__init__(plan, geometry, constants, Sums(), store, textures=textures)
        for number, block in enumerate(self.blocks):
            block.steps.insert(0, self._entered(number))

    def _entered(self, number: int) -> Step:
        def entered() -> None:
            mask, groups = self.lanes.mask, self.lane_groups
            self._step_number += 1
            self._quiet = self._kept is not None and not self._kept[self._step_number]
            if self._quiet:
                return
            if not groups.everyone_alive:  # without a mask, all those execute the block that have not ended
                mask = groups.alive.copy() if mask is None else mask & groups.alive
            self._log.append((number, mask, {}))
            if self._most is not None:
                block = self.blocks[number]
                warps = self.geometry.lanes // WARP if mask is None else int(mask.reshape(-1, WARP).any(axis=1).sum())
                self._executed += warps * (block.end - block.first)
                if self._executed > self._most:
                    raise TooLong(f"more than {self._most:,} warp instructions")

        return entered

    def _signals(self, d: Decoded) -> Sequence[Step]:
        if d.name == "BAR":
            return self._named_barrier(d)
        if d.name == "UTMASTG":
            return (self._stores_box(d),)
        if d.name in TO_OTHERS:
            return (self._sends(d),)
        if d.name == "UTMALDG":
            return (self._loads_box(d),)
        return (self._signal(d),)

    def _record(self, d: Decoded, touch: Callable[..., Touch | None], *fetches: Fetch) -> Step:
        """Return a step that records a ``touch`` for each warp with lanes that execute ``d``. ``touch`` gets the
        numbers of these lanes, and the values of ``fetches`` for all lanes of the warp."""
        guard, lanes = self.lanes.guard(d), self.geometry.lanes

        def record() -> None:
            if self._quiet:
                return
            active = self._active(guard).reshape(-1, WARP)
            values = [np.broadcast_to(fetch(), (lanes,)).reshape(-1, WARP) for fetch in fetches]
            self._log[-1][2][d.index] = [
                touch(np.flatnonzero(some), *(value[warp] for value in values)) if some.any() else None
                for warp, some in enumerate(active)
            ]

        return record

    def _signal(self, d: Decoded) -> Step:
        """Record an operation on an mbarrier."""
        kind = next((SIGNAL_KINDS[word] for word in d.modifiers if word in SIGNAL_KINDS), None)
        if kind is None or not SIGNAL_MODIFIERS.issuperset(d.modifiers):
            raise unknown_form(d)
        remote, bare = self._cluster > 1 and d.has("RED"), d.has("A1T0")

        def touch(lanes: Array, at: Array, word: Array) -> Signal:
            barrier, number = int(at[lanes[0]]) & SHARED_WINDOW - 1, int(word[lanes[0]])
            if kind == "made":
                return Signal("made", barrier, arrivals=MOST_ARRIVALS - (number >> 1 & MOST_ARRIVALS - 1))
            if kind == "awaited":
                return Signal("awaited", barrier, parity=number >> 31)
            to = tuple(np.bincount(at[lanes] // SHARED_WINDOW, minlength=self._cluster).tolist()) if remote else ()
            return Signal("arrived", barrier, len(lanes), 0 if bare else number * len(lanes), to=to)

        where = self.lanes.address(_memory(d, d.operands), "shared", ranked=True)
        return self._record(d, touch, where, self.lanes.fetcher(d.operands[-1]))

    def _loads_box(self, d: Decoded) -> Step:
        """Record a copy of a box into shared memory."""
        first = _memory(d, d.operands).registers[0]  # [where to]
        assert first.number is not None
        # The register after it names the mbarrier, those after that the box.
        barrier, *coordinates = (replace(first, number=first.number + i) for i in range(1, 2 + dimensions(d)))
        where, maps = self.lanes.address(Memory((barrier,), 0), "shared"), _memory(d, d.operands[1:2])
        names = self.lanes.address(maps, "shared"), *map(self.lanes.fetcher, coordinates)
        ranks = (self.lanes.fetcher(d.operands[-1]),) if d.has("MULTICAST") else ()

        def touch(lanes: Array, at: Array, *others: Array) -> Traffic:
            first = lanes[0]
            which = tuple(int(name[first]) for name in others[: len(names)])
            mask = int(others[-1][first]) >> MASK_BIT if ranks else 0
            to = tuple(rank for rank in range(self._cluster) if mask & 1 << rank)
            barrier, boxes = int(at[first]) & SHARED_WINDOW - 1, self._boxes.get(which[0])
            if boxes is None:
                return box_of(0, barrier=barrier, which=which, to=to)
            return box_of(_sectors(boxes), barrier=barrier, which=which, to=to, zeros=is_outside(boxes, which[1:]))

        return self._record(d, touch, where, *names, *ranks)

    def _touch_local(self, d: Decoded) -> Sequence[Step]:
        """Record an access to an array in local memory, if lanes may have indices of their own. Each word of a thread
        is in one line with those of the warp's other threads."""
        memory, words = _memory(d, d.operands), max(1, d.source.width // 4)
        if all((it.file, it.number) == STACK for it in memory.registers):
            return ()

        def touch(lanes: Array, at: Array) -> Traffic:
            word = at[lanes].astype(np.int64) // 4
            lines, sectors = len(np.unique(word)), len(np.unique(word * LINE_SECTORS + lanes // SECTOR_LANES))
            return Traffic("local", d.name == "LDL", words * lines, words, written=words * sectors)

        return (self._record(d, touch, self.lanes.address(memory, "local")),)

    def _named_barrier(self, d: Decoded) -> Sequence[Step]:
        """Record a named barrier: its number, and how many threads it expects."""
        if len(d.operands) != 2 or d.has("RED"):  # of the whole block
            return ()
        kind: Kind = "passed" if d.has("ARV") else "met"

        def touch(lanes: Array, number: Array, threads: Array) -> Signal:
            return Signal(kind, int(number[lanes[0]]), int(threads[lanes[0]]))

        return (self._record(d, touch, *map(self.lanes.fetcher, d.operands)),)

    def _sends(self, d: Decoded) -> Step:
        """Record stores to blocks of the cluster: a pair of registers names the place and the mbarrier."""
        memory = d.operands[0]
        if not isinstance(memory, Memory) or len(memory.registers) != 1 or memory.registers[0].suffix != "64":
            raise unknown_form(d)
        first = memory.registers[0]
        assert first.number is not None
        barrier = replace(first, number=first.number + 1, suffix="")
        each = next((int(word) // 8 for word in d.modifiers if word in ("64", "128")), 4)

        def touch(lanes: Array, at: Array) -> Signal:
            places = at[lanes]
            offset, *others = np.unique(places & SHARED_WINDOW - 1)
            if others:
                raise Uncountable(f"lanes of one warp that report to several mbarriers: {d.text}")
            to = tuple((each * np.bincount(places // SHARED_WINDOW, minlength=self._cluster)).tolist())
            return Signal("sent", int(offset), len(lanes), sum(to), to=to)

        return self._record(d, touch, self.lanes.address(Memory((barrier,), 0), "shared", ranked=True))

    def _stores_box(self, d: Decoded) -> Step:
        """Record a copy of a box out of shared memory. Its size is that of the tensor map at the address it names."""

        def touch(lanes: Array, at: Array) -> Traffic:
            boxes = self._boxes.get(int(at[lanes[0]]))
            if boxes is None:
                raise Uncountable(f"the tensor map of {d.text} is no parameter of the kernel")
            return box_of(_sectors(boxes), load=False)

        return self._record(d, touch, self.lanes.address(_memory(d, d.operands[-1:]), "shared"))

    def _counted_as_reading(self, d: Decoded) -> Fetch | None:
        return self.lanes.reading(d)

    def _touch(self, d: Decoded, use: MemoryUse) -> Step:
        access, address, guard, beside = use.access, use.address, use.guard, use.beside
        is_shared = access.space == "shared"
        rows = True if use.rows is None else use.rows
        past = tally.BYPASS in d.source.opcode
        known: dict[bytes, list[Traffic | None]] = {}

        def touch() -> None:
            if self._quiet:
                return
            some, mask = self.lanes.active(guard)
            if not some:
                return
            alive = self.lane_groups.alive
            active = ((alive if mask is None else mask & alive) & rows).reshape(-1, WARP)
            where = np.broadcast_to(address(), (self.geometry.lanes,)).reshape(-1, WARP)
            if self._bounds is not None and d.name in BOUNDED:
                self._check(d, access, where[active])
            if beside is not None and is_shared:
                written = tally.written_wavefronts(access, where, active, beside().reshape(-1, WARP))
                self._written[d.index] = written.tolist()
                return
            key = where.tobytes() + active.tobytes() if is_shared else b""
            found = known.get(key) if key else None
            if found is None:
                found = _touches(access, where, active)
                if key:
                    known[key] = found
            if beside is not None:
                pairs = zip(found, self._written[d.index], strict=True)
                found = [it and replace(it, written=written, past=past) for it, written in pairs]
            elif STRONG in d.source.opcode and not is_shared:
                found = [it and replace(it, strong=True) for it in found]
            if d.name in ("LD", "ST", "ATOM", "RED") and (
                before := self._log[-1][2].get(d.index)
            ):  # counted as shared memory first
                found = [now or then for now, then in zip(found, before, strict=True)]
            self._log[-1][2][d.index] = found

        return touch

    def _check(self, d: Decoded, access: Access, addresses: Array) -> None:
        """Raise ``LeavesMemory`` where a block would fault."""
        assert self._bounds is not None
        if addresses.size and self._bounds.left(access, addresses):
            line = f"line {d.source.line}" if d.source.line else d.text
            raise LeavesMemory(f"{line} accesses {access.space} memory out of bounds; gemm-lessons inspect says where")

    def _places(self, block: BasicBlock, touches: Iterable[int]) -> Iterable[int]:
        """Return the instructions (indices) of a basic block to record; ``touches``: those with a touch."""
        return range(block.first, block.end)

    def warps(self, kept: Sequence[bool] | None = None) -> tuple[tuple[tuple[int, Touch | None], ...], ...]:
        """Return what each warp executed; ``kept``: of the recorded basic blocks, these."""
        count = self.geometry.lanes // WARP
        streams: list[list[tuple[int, Touch | None]]] = [[] for _ in range(count)]
        for number, mask, touches in self._log if kept is None else itertools.compress(self._log, kept):
            block = self.blocks[number]
            inside: Sequence[int] = range(count)
            if mask is not None:
                inside = np.flatnonzero(mask.reshape(-1, WARP).any(axis=1)).tolist()
            steps = [(index, touches.get(index)) for index in self._places(block, touches)]
            plain = [(index, None) for index, _ in steps]
            places = [(at, found) for at, (_, found) in enumerate(steps) if found is not None]
            for warp in inside:
                start = len(streams[warp])
                streams[warp] += plain
                for at, found in places:
                    streams[warp][start + at] = (plain[at][0], found[warp])
        if any(d.name in SIGNALS for d in self.plan.program.code):
            streams = [shared_out(stream) for stream in streams]
        return tuple(map(tuple, streams))


class _BoxRecorder(_Recorder):
    """Records the boxes that the TMA copies and operations on mbarriers, and no other instruction."""

    def _places(self, block: BasicBlock, touches: Iterable[int]) -> Iterable[int]:
        return sorted(touches)

    def _touch(self, d: Decoded, use: MemoryUse) -> Step:
        return lambda: None


class _Outline(Walker):
    """Records which basic blocks are executed in which order, and by how many warps."""

    def __init__(
        self,
        plan: Plan,
        geometry: Geometry,
        constants: dict[int, bytes],
        store: Store | None,
        textures: Mapping[int, Texels],
        boxes: Mapping[int, TensorMap],
    ) -> None:
        self.steps: list[int] = []  # numbers of basic blocks
        self.weights: list[int] = []  # warp instructions of each step
        self.by_block = np.zeros(geometry.blocks)  # and of each block
        self.spread = np.ones(geometry.blocks, bool)  # blocks that stand for all
        super().__init__(plan, geometry, constants, Sums(), store, watch=lambda *_: None, textures=textures)
        for number, block in enumerate(self.blocks):
            block.steps.insert(0, self._entered(number, block.end - block.first))

    def _entered(self, number: int, instructions: int) -> Step:
        def entered() -> None:
            mask, alive = self.lanes.mask, self.lane_groups.alive
            lanes = alive if mask is None else mask & alive
            warps = lanes.reshape(-1, WARP).any(axis=1)
            self.steps.append(number)
            self.weights.append(instructions * int(warps.sum()))
            self.by_block += instructions * warps.reshape(self.geometry.blocks, -1).sum(axis=1)

        return entered

    def _uses(self, d: Decoded) -> Iterator[MemoryUse]:
        yield from ()

    @property
    def average(self) -> int:
        """Return which of the spread blocks is closest to their average in warp instructions; of several, the one in
        the middle."""
        executed = self.by_block[self.spread]
        off = abs(executed - executed.mean()) // (NEAR * executed.mean())
        nearest = np.flatnonzero(off == off.min())
        return int(nearest[len(nearest) // 2])


def _memory(d: Decoded, operands: Sequence[Operand]) -> Memory:
    """Return the first memory operand, which must have a register. Raise ``Uncountable``."""
    memory = next((operand for operand in operands if isinstance(operand, Memory)), None)
    if memory is None or not memory.registers:
        raise unknown_form(d)
    return memory


def box_of(
    sectors: int,
    *,
    load: bool = True,
    barrier: int | None = None,
    which: tuple[int, ...] = (),
    to: tuple[int, ...] = (),
    zeros: bool = False,
) -> Traffic:
    """Return the traffic of a box of ``sectors`` sectors that the TMA copies."""
    lines = -(-sectors // LINE_SECTORS)
    return Traffic(
        "global", load, lines, lines, range(sectors), past=True, barrier=barrier, box=True, which=which, to=to,
        zeros=zeros,
    )  # fmt: skip


def _sectors(boxes: TensorMap) -> int:
    return math.prod(boxes.box) * boxes.type.size // banks.SECTOR


def is_outside(boxes: TensorMap, coordinates: Sequence[int]) -> bool:
    """Return whether nothing of a box is inside of the array. Coordinates are registers, the innermost axis first."""
    first = np.array(coordinates[::-1], np.uint32).view(np.int32)
    return bool((first >= boxes.array.shape).any() or (first + boxes.box <= 0).any())


def shared_out(stream: list[tuple[int, Touch | None]]) -> list[tuple[int, Touch | None]]:
    """Distribute the bytes announced to an mbarrier over those boxes of its phase whose tensor map is not known, in
    equal shares. Raise ``Uncountable`` if no bytes were announced or the box is a multicast."""
    announced: dict[int, tuple[int, list[int]]] = {}  # barrier -> bytes, and the positions of the boxes since then

    def settle(barrier: int) -> None:
        size, places = announced.pop(barrier, (0, []))
        sectors = size // banks.SECTOR
        for number, place in enumerate(places):
            index, box = stream[place]
            assert isinstance(box, Traffic)
            share = (number + 1) * sectors // len(places) - number * sectors // len(places)
            stream[place] = index, box_of(share, barrier=box.barrier, which=box.which, to=box.to)

    for place, (_, touch) in enumerate(stream):
        if touch is None:  # most of them
            continue
        if isinstance(touch, Signal) and touch.kind == "arrived" and touch.bytes:
            settle(touch.barrier)
            announced[touch.barrier] = touch.bytes, []
        elif isinstance(touch, Traffic) and touch.barrier is not None and not touch.sectors:
            if touch.to:
                raise Uncountable("a multicast of a box whose tensor map is no parameter of the kernel")
            if touch.barrier not in announced:
                raise Uncountable("a bulk copy whose bytes were not announced before")
            announced[touch.barrier][1].append(place)
    for barrier in list(announced):
        settle(barrier)
    return stream


def _touches(access: Access, where: Array, active: Array) -> list[Traffic | None]:
    """Return the traffic of one instruction, per warp. None: no active lane."""
    mask = None if active.all() else active
    load = access.effect in ("load", "copy") or access.is_matrix
    if access.space == "shared":
        cost, ideal, _ = tally.wavefronts(access, where, mask)
        return [
            Traffic("shared", load, c, i) if c else None for c, i in zip(cost.tolist(), ideal.tolist(), strict=True)
        ]
    found: list[Traffic | None] = []
    requests = np.arange(WARP) // banks.LANES_OF_A_REQUEST[access.width] if access.space == TEXTURE else None
    plain = access.effect == "load" and access.space == "global"
    banked = tally.wavefronts(access, where, mask)[0].tolist() if plain else [0] * len(where)
    for address, row, lanes, taken in zip(where, where // banks.SECTOR, active, banked, strict=True):
        sectors = sorted(set(row.tolist() if mask is None else row[lanes].tolist()))
        lines = len({sector // LINE_SECTORS for sector in sectors})
        if requests is not None:  # each by itself
            by_lane = zip(row // LINE_SECTORS, lanes, requests, strict=True)
            lines = len({(int(request), int(line)) for line, taking_part, request in by_lane if taking_part})
        if access.space == "remote":
            found.append(Traffic("remote", load, lines, lines) if sectors else None)
        else:
            few = not load and int(np.count_nonzero(lanes)) * access.width < len(sectors) * banks.SECTOR
            rounds = _rounds(address[lanes], sectors) if access.effect == "atomic" else ()
            some = Traffic("global", load, lines, lines, tuple(sectors), rounds=rounds, partial=few, banked=taken)
            found.append(some if sectors else None)
    return found


def _rounds(addresses: Array, sectors: Sequence[int]) -> tuple[int, ...]:
    """Return the most lanes at one address of each sector."""
    most = dict.fromkeys(sectors, 0)
    for address, lanes in Counter(addresses.tolist()).items():
        most[address // banks.SECTOR] = max(most[address // banks.SECTOR], lanes)
    return tuple(most.values())
