"""Execute the slice of a kernel's machine code that addresses and branches depend on, and count every access.

    Compiled.sass -> operands -> flow, slicing, planning (the slice) -> lanes, divergence, control_flow -> Sums

Nsight Compute counts machine instructions. ptxas merges neighbouring loads and stores, unrolls loops, predicates
branches and drops dead code, so only a count of the machine code itself can be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from gemm_lessons.engine.compiler.sass import width_of
from gemm_lessons.engine.costs import banks
from gemm_lessons.engine.costs.copies import LINE, NOWHERE
from gemm_lessons.engine.costs.tally import Sums, Tally
from gemm_lessons.engine.events import WARP, Access, Effect, Space
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.sass import conversions, floats, functions, integers
from gemm_lessons.engine.sass import cross_lane as exchange
from gemm_lessons.engine.sass.access_cache import AccessCosts
from gemm_lessons.engine.sass.control_flow import ControlFlow
from gemm_lessons.engine.sass.divergence import LaneGroup, LaneGroups
from gemm_lessons.engine.sass.exposed_latency import BlockEvents, LatencyTracker
from gemm_lessons.engine.sass.flow import (
    BULK,
    COPIES,
    GENERIC,
    LOADS,
    MEMORY,
    SIGNALS,
    STORES,
    TEXTURE,
    TO_OTHERS,
    results,
)
from gemm_lessons.engine.sass.lanes import Geometry, Lanes
from gemm_lessons.engine.sass.operand_fetch import Compute, Fetch
from gemm_lessons.engine.sass.operands import Decoded, Memory, Uncountable, is_taken_as_reading, unknown_form
from gemm_lessons.engine.sass.planning import CONTROL, FUSED, STORED, Plan, brought
from gemm_lessons.engine.sass.textures import FETCHES, Texels, addressed, fetched, textures_of
from gemm_lessons.engine.sass.work_per_thread import WorkPerThread
from gemm_lessons.engine.semantics.floats import float_state

if TYPE_CHECKING:
    from gemm_lessons.engine.sass.memory_contents import Store

WRITES = {**STORED, **COPIES}
LANES = 1 << 15  # at once: the array of a register stays in the L2 cache
BLOCK_BUDGET = 4_000_000  # basic blocks executed for a batch; far more than usual kernels need
BY_TENSOR_CORES = "HFMA2.MMA"  # runs on another unit than HFMA2
IGNORED = frozenset(
    "NOP YIELD BAR MEMBAR ERRBAR CGAERRBAR CCTL CCTLL DEPBAR LDGDEPBAR NANOSLEEP PMTRIG FENCE ARRIVES WARPSYNC "
    "WARPGROUP UCGABAR_ARV UCGABAR_WAIT".split()
).union(BULK, TO_OTHERS)

Step = Callable[[], None]
Watch = Callable[[Access, Array, Array | None, int], None]  # access, addresses, lanes, number of the first lane


@dataclass
class BasicBlock:
    """A basic block. ``steps`` execute its slice; ``ControlFlow`` handles its last instruction."""

    first: int
    end: int
    steps: list[Step] = field(default_factory=list)
    fused: Counter[str] = field(default_factory=Counter)  # unguarded multiply-adds
    products: int = 0  # useful ones of each lane; guarded ones are steps
    operations: int = 0  # useful ones of each lane, likewise
    exchanges: int = 0  # of loaded numbers between lanes
    barriers: int = 0  # unguarded BAR instructions
    warps: int = 0  # executions, summed over warps
    lanes: int = 0
    events: BlockEvents | None = None  # global loads and the arithmetic that may hide them; None: not tracked


@dataclass(frozen=True)
class MemoryUse:
    """One memory use of an instruction.

    ``address``: by lane; ``guard``: lanes that access. ``beside``: addresses of a copy's other side. ``rows``: the
    lanes that give an address of ldmatrix or stmatrix.
    """

    access: Access
    address: Fetch
    guard: Fetch | None
    beside: Fetch | None
    rows: Array | None


class Walker:
    """Counts one batch of blocks. All batches of a launch share ``sums``."""

    def __init__(
        self,
        plan: Plan,
        geometry: Geometry,
        constants: dict[int, bytes],
        sums: Sums,
        store: Store | None = None,
        watch: Watch | None = None,
        textures: Mapping[int, Texels] = MappingProxyType({}),
    ) -> None:
        self.plan = plan
        self.textures = textures
        self.watch = watch
        self.geometry = geometry
        self.sums = sums
        self.store = store
        self.lanes = Lanes(geometry, constants)
        if store is not None:
            store.begin(self.lanes)
        self.lane_groups = groups = LaneGroups(geometry.alive())
        self.lanes.alive = lambda: groups.alive
        self.seen: list[tuple[Tally, AccessCosts]] = []
        self.latencies = LatencyTracker(geometry.lanes, sums) if watch is None else None
        self.work = WorkPerThread(geometry.lanes, geometry.blocks)
        self.blocks = self._blocks()
        number = {block.first: i for i, block in enumerate(self.blocks)}
        control = ControlFlow(plan, self.lanes, self.lane_groups, number, parks=store is not None)
        last = [plan.program.code[block.end - 1] for block in self.blocks]
        self.control = [control.move(d, after) for after, d in enumerate(last, 1)]

    # -- preparing ----------------------------------------------------------------------------------------------------

    def _blocks(self) -> list[BasicBlock]:
        code = self.plan.program.code
        starts = {0, *self.plan.program.labels.values()}
        starts |= {d.index + 1 for d in code if d.name in CONTROL and d.name not in ("BSSY", "BAR")}
        if self.store is not None:
            starts |= {d.index + 1 for d in code if d.name == "BAR"}
        starts |= {d.index + 1 for d in code if d.name == "BSSY"}
        ordered = sorted(start for start in starts if start < len(code))
        blocks = [BasicBlock(first, end) for first, end in zip(ordered, [*ordered[1:], len(code)], strict=True)]
        loading = self.latencies is not None and any(map(brought, code))
        for block in blocks:
            if loading:
                block.events = self.plan.events(block.first, block.end)
            for d in code[block.first : block.end]:
                if loading and brought(d):
                    block.steps.append(self._issue(d))
                self._add_work(block, d)
                if d.name in FUSED:
                    if d.guard is None:
                        block.fused[d.name] += 1
                    elif d.index in self.plan.open:
                        self.sums.unknown_guards = d.text
                    else:
                        block.steps.append(self._count(d, FUSED[d.name]))
                elif d.name == "BAR":
                    if d.guard is None:
                        block.barriers += 1
                    else:
                        block.steps.append(self._count(d, "arrivals"))
                if MEMORY.get(d.name) == "local":
                    block.steps.extend(self._touch_local(d))
                elif d.name in MEMORY:
                    block.steps.extend(self._touch(d, use) for use in self._uses(d))
                if d.name in SIGNALS or d.name == "BAR":
                    block.steps.extend(self._signals(d))
                if self.plan.executed[d.index] or WRITES.get(d.name) in self.plan.spaces:
                    step = self._step(d)
                    if step is not None:
                        block.steps.append(step)
        return blocks

    def _touch_local(self, d: Decoded) -> Sequence[Step]:
        """Return steps for an access to local memory: none, as no counter has them."""
        return ()

    def _add_work(self, block: BasicBlock, d: Decoded) -> None:
        """Add the useful work of an instruction to its block; as a step if a guard may leave out lanes."""
        plan = self.plan.work
        products, operations = plan.products[d.index], plan.operations[d.index]
        block.exchanges += plan.exchanges[d.index]
        if d.guard is None or not products or d.index in self.plan.open:
            block.products += products
            block.operations += operations
            return
        guard = self.lanes.guard(d)
        block.steps.append(lambda: self.work.add(self._active(guard), 0, products, operations))

    def _count(self, d: Decoded, name: str) -> Step:
        """Return a step that adds the lanes that execute ``d`` to this sum."""
        guard = self.lanes.guard(d)

        def count() -> None:
            some, mask = self.lanes.active(guard)
            if some:
                alive = self.lane_groups.alive
                self._add(name, int(np.count_nonzero(alive if mask is None else mask & alive)))

        return count

    def _add(self, name: str, lanes: int) -> None:
        setattr(self.sums, name, getattr(self.sums, name) + lanes)

    def _issue(self, d: Decoded) -> Step:
        """Return a step that records which lanes execute a global load."""
        guard, latencies = self.lanes.guard(d), self.latencies
        assert latencies is not None
        if self._is_generic(d):
            _, means_global, _, _ = self.lanes.generic(next(o for o in d.operands if isinstance(o, Memory)))
            guard = both(guard, means_global)

        def issue() -> None:
            some, mask = self.lanes.active(guard)
            if some:
                alive = self.lane_groups.alive
                latencies.active[d.index] = alive if mask is None else mask & alive

        return issue

    def _step(self, d: Decoded) -> Step | None:
        votes = d.name == "BAR" and d.has("RED")
        if (d.name in IGNORED or d.name in CONTROL) and not votes:
            return None
        lanes, guard = self.lanes, self.lanes.guard(d)
        names, registers = results(d)[0], lanes.registers
        if d.name in MEMORY:
            if self.store is None:
                raise Uncountable(f"addresses depend on {d.text}")
            return self.store.step(d, lanes, lambda: self.lane_groups.alive, is_unknown=d.index in self.plan.open)
        compute = self._compute(d)
        if guard is None and len(names) == 1:
            (only,) = names

            def execute_plainly() -> None:
                values = compute()
                if len(values) != 1:
                    raise unknown_form(d)
                if lanes.mask is None:
                    registers[only] = values[0]
                else:
                    lanes.write(only, values[0], lanes.mask)

            return execute_plainly

        def execute() -> None:
            some, mask = (True, lanes.mask) if guard is None else lanes.active(guard)
            if some:
                values = compute()
                if len(values) != len(names):
                    raise unknown_form(d)
                if mask is None:
                    registers.update(zip(names, values, strict=True))
                    return
                for name, value in zip(names, values, strict=True):
                    lanes.write(name, value, self._of_warps(mask) if name.startswith("UR") else mask)

        return execute

    def _of_warps(self, mask: Array) -> Array:
        """Return the lanes of the group in whose warps a lane of ``mask`` writes a uniform register."""
        whole = np.repeat(mask.reshape(-1, WARP).any(axis=1), WARP)
        return whole if self.lanes.mask is None else whole & self.lanes.mask

    def _compute(self, d: Decoded) -> Compute:
        for table in (integers.TABLE, floats.TABLE, conversions.TABLE, functions.TABLE):
            if d.name in table:
                return table[d.name](self.lanes.sources(d))
        if d.name in exchange.TABLE:
            return exchange.TABLE[d.name](self.lanes, lambda: self.lane_groups.alive, d)
        raise Uncountable(f"unknown instruction {d.text}")

    # -- counting -----------------------------------------------------------------------------------------------------

    def _uses(self, d: Decoded) -> Iterator[MemoryUse]:
        """Yield an instruction's memory uses: two for cp.async, two or three for a generic address."""
        lanes, guard = self.lanes, self.lanes.guard(d)
        if d.name in FETCHES:
            texels, touching = addressed(d, lanes.fetcher, partial(self._active, guard), self.textures)
            yield self._use(d, "texture", "load", texels, both(guard, touching))
            return
        memories = [operand for operand in d.operands if isinstance(operand, Memory)]
        effect: Effect = "load" if d.name in LOADS else "store" if d.name in STORES else "atomic"
        if self._is_generic(d):
            means_own, means_global, inside, means_other = lanes.generic(memories[0])
            yield self._use(d, "shared", effect, inside, both(guard, means_own))
            address = lanes.address(memories[0], "global")
            yield self._use(d, "global", effect, address, both(guard, means_global))
            if means_other is not None:
                yield self._use(d, "remote", effect, address, both(guard, means_other))
            return
        if d.name not in COPIES:
            space: Space = "shared" if MEMORY[d.name] == "shared" else "global"
            yield self._use(d, space, effect, lanes.address(memories[0], space), guard)
            return
        reading = lanes.reading(d)
        # All bytes count as read where only the first are: hardware reads a sector anyway.
        to, (source, _) = lanes.address(memories[0], "shared"), lanes.copied(d)
        yield self._use(d, "shared", "copy", to, guard, self._spread(source, self._counted_as_reading(d)))
        yield self._use(d, "global", "copy", source, both(guard, reading), self._spread(to))

    def _counted_as_reading(self, d: Decoded) -> Fetch | None:
        """Fetch the lanes of a cp.async of which the profiler counts wavefronts that read; None: all."""
        return None if is_taken_as_reading(d) else self.lanes.reading(d)

    def _is_generic(self, d: Decoded) -> bool:
        """Return whether each lane's address selects the memory. Atomics on shared memory of a cluster are ATOM."""
        return MEMORY[d.name] == GENERIC or (d.name in ("ATOM", "RED") and self.geometry.grid.cluster is not None)

    def _use(
        self, d: Decoded, space: Space, effect: Effect, address: Fetch, guard: Fetch | None, beside: Fetch | None = None
    ) -> MemoryUse:
        width, source = bytes_of(d), d.source
        matrix = d.name in ("LDSM", "STSM")
        rows = banks.rows_of_matrices(width, self.geometry.lanes) if matrix else None
        width = banks.ROW_BYTES if matrix else width
        access = Access(d.index, space, effect, width, source.line, source.file, d.text, is_matrix=matrix)
        return MemoryUse(access, address, guard, beside, rows)

    def _spread(self, address: Fetch, reading: Fetch | None = None) -> Fetch:
        """Fetch the addresses of all lanes; ``NOWHERE`` for those that are not ``reading``."""

        def spread() -> Array:
            where = address()
            where = where if where.size == self.geometry.lanes else where.repeat(self.geometry.lanes)
            return where if reading is None else np.where(reading(), where, NOWHERE)

        return spread

    def _signals(self, d: Decoded) -> Sequence[Step]:
        """Return steps that record what ``d`` signals, or the box it copies. Counting needs none."""
        return ()

    def _active(self, guard: Fetch | None) -> Array:
        """Return the lanes that execute the current instruction."""
        some, mask = self.lanes.active(guard)
        alive = self.lane_groups.alive
        return (alive if mask is None else alive & mask) if some else np.zeros_like(alive)

    def _touch(self, d: Decoded, use: MemoryUse) -> Step:
        """Return a step that counts the execution of a memory instruction."""
        access, address, guard, beside, rows = use.access, use.address, use.guard, use.beside, use.rows
        tally = self.sums.tallies.setdefault((d.index, access.space), Tally(access))
        period = LINE if access.space == "shared" or beside else banks.SECTOR
        seen, watch, lanes = AccessCosts(access, period), self.watch, self.geometry.lanes
        is_texture = access.space == TEXTURE

        def touch() -> None:
            some, mask = (True, self.lanes.mask) if guard is None else self.lanes.active(guard)
            if not some:
                return
            if mask is None:
                mask = None if self.lane_groups.everyone_alive else self.lane_groups.alive
            elif not self.lane_groups.everyone_alive:
                mask = mask & self.lane_groups.alive
            if rows is not None:
                mask = rows if mask is None else rows & mask
            where = address()
            if where.size != lanes:  # otherwise broadcasting costs as much as all the rest
                where = where.repeat(lanes)
            if watch is not None and access.space != "remote":
                watch(access, where, mask, self.geometry.first * self.geometry.padded)
            if is_texture:
                self.sums.textures |= textures_of(where, mask, self.geometry.padded)
            one = seen.look(where, mask, self.geometry, beside() if beside else None)
            if one is not None:
                tally.add(one, 1, where, mask)

        self.seen.append((tally, seen))
        return touch

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, budget: int = BLOCK_BUDGET) -> None:
        """Run until every lane has exited. Raise ``Uncountable``, also after ``budget`` basic blocks."""
        lane_group: LaneGroup | None = self.lane_groups.start(0)
        most = budget
        with float_state():
            while True:
                if lane_group is None or lane_group.mask is not None:
                    if lane_group is not None:
                        self.lane_groups.add(lane_group)
                    lane_group = self.lane_groups.next()
                    if lane_group is None:
                        break
                block = self.blocks[lane_group.block]
                block.warps += lane_group.warps
                block.lanes += lane_group.lanes
                self.lanes.mask = lane_group.mask
                for step in block.steps:
                    step()
                if block.events is not None and self.latencies is not None:
                    self.latencies.follow(block.events, lane_group.mask)
                mask = self.lane_groups.mask_of(lane_group)
                self.work.add(mask, block.end - block.first, block.products, block.operations)
                budget -= 1
                if budget < 0:
                    raise Uncountable(f"more than {most} basic blocks were executed")
                lane_group = self.control[lane_group.block](lane_group)
        self._sum()

    def _sum(self) -> None:
        code = self.plan.program.code
        for block in self.blocks:
            for name, count in block.fused.items():
                self._add(FUSED[name], count * block.lanes)
            self.sums.arrivals += block.barriers * block.lanes
            here = slice(block.first, block.end)
            self.sums.reuse_flags += block.warps * sum(self.plan.reuse_flags[here])
            self.sums.register_conflicts += block.warps * sum(self.plan.register_conflicts[here])
            self.sums.exchanges += block.warps * block.exchanges
            self.sums.tensor_products += block.warps * sum(self.plan.tensor_products[here])
            self.sums.tile_wavefronts += block.warps * sum(self.plan.tile_wavefronts[here])
            for d in code[block.first : block.end]:
                self.sums.warps[d.index] += block.warps
                self.sums.lanes[d.index] += block.lanes
                for space in ("shared", "global", TEXTURE) if d.name in MEMORY else ():
                    tally = self.sums.tallies.get((d.index, space))
                    if tally is not None:
                        tally.executed += block.warps
                self.sums.issued[BY_TENSOR_CORES if d.source.opcode.startswith(BY_TENSOR_CORES) else d.name] += (
                    block.warps
                )
        self.work.add_to(self.sums)
        for tally, seen in self.seen:
            tally.footprint.merge(seen.left(self.geometry, tally))
        self.control.clear()
        for block in self.blocks:
            block.steps.clear()  # which hold this walker


def both(one: Fetch | None, other: Fetch | None) -> Fetch | None:
    """Return the conjunction of two conditions; None: no condition."""
    if one is None or other is None:
        return one or other
    return lambda: one() & other()


def bytes_of(d: Decoded) -> int:
    """Return the bytes per lane that a memory instruction moves."""
    return fetched(d) if d.name in FETCHES else max(1, width_of(d.source.opcode))


def batches(grid: Grid, chosen: Sequence[range], by_warps: bool = False, *, scattered: bool = False) -> list[Geometry]:
    """Return every batch of the ``chosen`` blocks of a launch. ``scattered``: they need not be neighbours."""
    padded = -(-grid.threads // WARP) * WARP
    size = max(1, LANES // padded)
    if scattered and len(chosen) > 1 and all(len(part) == 1 for part in chosen):
        places = [part.start for part in chosen]
        groups = [tuple(places[at : at + size]) for at in range(0, len(places), size)]
        return [Geometry(grid, group[0], len(group), by_warps, group) for group in groups]
    return [
        Geometry(grid, first, min(size, part.stop - first), by_warps)
        for part in chosen
        for first in range(part.start, part.stop, size)
    ]
