"""Runs a kernel: batches of blocks in lockstep, divergence by masks, barriers, the instruction budget, the trace.

All lanes of a batch step through basic blocks together. When a branch splits them, the lanes at the block with the
smallest number run first (``cfg.py`` numbers blocks so that this reconverges); the rest wait. Lanes at a barrier wait
until every thread of their block that has not ended is there. The result does not depend on how many blocks share a
batch: blocks communicate only through global memory, and their global accesses are recorded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from gemm_lessons.engine.events import WARP, Boundary, LaunchInfo, Observer, SharedArray
from gemm_lessons.engine.machine import heap
from gemm_lessons.engine.machine import spin_waits as spinning
from gemm_lessons.engine.machine.access import Layout
from gemm_lessons.engine.machine.barriers import Barriers, is_plain
from gemm_lessons.engine.machine.convergence import Convergence
from gemm_lessons.engine.machine.decode import Binder, Run
from gemm_lessons.engine.machine.early_arrivals import explained
from gemm_lessons.engine.machine.executed import ExecutionCounts, warps_of
from gemm_lessons.engine.machine.hangs import HangReport
from gemm_lessons.engine.machine.images import Images
from gemm_lessons.engine.machine.maps import TensorMaps
from gemm_lessons.engine.machine.mbarrier_waits import PhaseWaits
from gemm_lessons.engine.machine.mbarriers import MbarrierFault
from gemm_lessons.engine.machine.memory import (
    ALIGNMENT,
    BLANK,
    PARAMETERS,
    GlobalMemory,
    layout,
    map_in,
    map_name,
    maps_in_memory,
    parameter_block,
)
from gemm_lessons.engine.machine.prepared import BARRIER_ADDRESS, Program
from gemm_lessons.engine.machine.printing import Printer
from gemm_lessons.engine.machine.product_tally import ProductTally
from gemm_lessons.engine.machine.special import RESERVED_PLACE, cluster_of, cluster_order, clustered
from gemm_lessons.engine.machine.spin_waits import LoopSearch
from gemm_lessons.engine.machine.state import Fault, State, weakly
from gemm_lessons.engine.machine.unset import UnsetRegisters
from gemm_lessons.engine.process.bounds import OutOfTime, current
from gemm_lessons.engine.ptx.cfg import Block, line_of
from gemm_lessons.engine.ptx.records import Instruction, Register, Variable
from gemm_lessons.engine.ptx.recursion import BYTES as STACK_BYTES
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Endless, Misuse, Quoted, Stopped
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Argument, Grid, TensorMap, buffers_of
from gemm_lessons.engine.semantics.floats import float_state

# Lanes per batch. Large groups of fma run best while their rows fit in a core's cache. Other kernels are limited by the
# number of NumPy calls and run faster with more lanes per call. Measured on 0.5 MB of L2 per core.
LANES_WITH_GROUPS = 2048
LANES = 8192
REGISTER_FILE_BYTES = 64 << 20
LOCAL_BYTES = 16 << 20  # local memory of all lanes: a thread of a function that calls itself has 8 KiB
# PTX instructions that one batch may execute. A dot product of length 1024 needs about 10 per step.
INSTRUCTION_BUDGET = 2_000_000
# Reasons of a trap that the kit puts into a kernel, by its modifier.
STOPS = {
    "call": "its pointer leads to no __device__ function",
    "stack": f"its calls of itself need more than {STACK_BYTES:,} bytes of stack",
}
GRID_BARRIER = "the barrier of the grid"  # two words that a cooperative launch has for grid.sync()
# Shared memory that CUDA reserves for cooperative groups, in bytes, and the barriers in it. No instruction sets these
# to 0, but a block on an H200 finds zeros there, and the last block's data in the rest
# (cooperative_groups/details/memory.h).
RESERVED_NAME, RESERVED_FOR_GROUPS, RESERVED_BARRIERS = "the shared memory of cooperative groups", 288, 32
# Records after which the trace is handed over without a barrier, and addresses of lanes in them: 256 MiB.
TRACE_LIMIT, TRACE_ADDRESSES = 1 << 16, 1 << 25
DONE = np.iinfo(np.int32).max
NOWHERE = np.array(DONE, np.int32)
Operations = tuple[list[Run], list[Run]]  # closures of a basic block, for all lanes and for some
INTERRUPT = 1 << 40  # instructions, more than any budget


@dataclass(frozen=True)
class Setting:
    """How the simulator runs a launch.

    ``block_limit``: thread blocks that run in lockstep (None: as many as run fastest). ``budget``: instructions of such
    a batch after which an endless kernel is stopped with a ``timeout`` fault. ``counting`` False: check the kernel, but
    count nothing, which is faster. ``checking`` False: values and faults alone. Of the other fields, callers may set
    ``portable``, ``count_products`` and ``unstored``; the simulator sets the rest for further runs.
    """

    block_limit: int | None = None
    budget: int = INSTRUCTION_BUDGET
    counting: bool = True
    checking: bool = True
    watched: frozenset[int] = frozenset()  # stores (instruction indices) whose values are recorded
    shuffles: frozenset[int] = frozenset()  # shuffles (instruction indices) whose undefined values are tracked
    blanks: frozenset[int] = frozenset()  # loads (instruction indices) of unwritten memory, whose values are tracked
    copies: bool = False  # track undefined values also in shared and local memory, as ``blanks`` does
    placed: bool = False  # record the true address of every global access
    portable: bool = False  # report a kernel to which a clock or the GPU's choices matter
    placement: int = 0  # 1: buffers are close to each other, 2: in the opposite order, too
    count_products: bool = False  # also count the products in a sum of a tensor core
    tally: ProductTally | None = None  # of such a run, whose sums are numbers of products
    tiles: bool = False  # record which boxes tensor copies put where, and which tiles products read
    unstored: bool = False  # count the elements of outputs that no store writes
    reached_only: bool = False  # an unknown instruction is an obstacle only where the launch reaches its basic block


class BoundBlocks(dict[int, Operations]):
    """The closures of each basic block, bound on first use: many launches never reach most blocks."""

    def __init__(self, bind: Callable[[int], Operations]) -> None:
        super().__init__()
        self._bind = bind

    def __missing__(self, number: int) -> Operations:
        self[number] = self._bind(number)
        return self[number]


class Machine:
    """One launch of one program. ``run`` raises ``Fault`` if it fails; memory then holds what it wrote before."""

    def __init__(
        self,
        program: Program,
        grid: Grid,
        arguments: Sequence[Argument],
        observers: Sequence[Observer],
        shared_layout: dict[str, int],
        setting: Setting,
        registers: int = 0,
    ) -> None:
        kernel = program.kernel
        self.program = program
        self.grid = grid = clustered(kernel, grid)
        self.observers = observers
        self.setting = setting
        shared = [v for v in (*kernel.variables, *program.variables) if v.space == "shared"]
        placed, static_end = layout(shared, shared_layout)
        dynamic = [v for v in shared if v.size == 0]
        self.shared_bytes = static_end + grid.dynamic_shared
        for variable in dynamic:
            placed[variable.name] = (placed[variable.name][0], grid.dynamic_shared)
        if program.has_reserved_shared:  # a GPU has it before the block's own; here it follows
            start = -(-self.shared_bytes // 16) * 16
            placed[RESERVED_NAME] = (start, RESERVED_FOR_GROUPS)
            self.shared_bytes = start + RESERVED_FOR_GROUPS
        local, self.local_bytes = layout([v for v in kernel.variables if v.space == "local"], {})
        self.arguments = arguments
        self.memory = self.initial_memory()
        self.layout = Layout(kernel, self.memory, placed, local)
        self.parameters = parameter_block(kernel, arguments, self.memory)
        padded = -(-grid.threads // WARP) * WARP
        together = math.prod(cluster_of(grid))  # blocks of a cluster share a batch
        limit = setting.block_limit or self._blocks_per_batch(padded)
        self.batch_blocks = min(grid.blocks, max(1, limit // together) * together)
        self.state = State(kernel, grid, self.batch_blocks, self.shared_bytes, self.local_bytes, program.rows)
        if program.has_reserved_shared:
            start = placed[RESERVED_NAME][0]
            self.state.special[RESERVED_PLACE] = np.uint32(self.state.shared_origin + start)
            self.state.zeroed = slice(start, start + RESERVED_BARRIERS)
        self.trace_limit = min(TRACE_LIMIT, TRACE_ADDRESSES // self.state.lanes)
        self.state.watched = setting.watched
        if program.is_cooperative:
            address = self.memory.symbols[GRID_BARRIER].base
            halves = (np.uint32(address >> 32), np.uint32(address & 0xFFFFFFFF))
            self.state.special |= zip(BARRIER_ADDRESS, halves, strict=True)
        self.state.images = Images(arguments)
        self.state.maps = TensorMaps(arguments)
        self.state.exit_blocks = program.exit_blocks
        self.state.versions = dict.fromkeys(program.address_registers, 0)
        binder = Binder(self.state, self.layout, kernel.parameters, self.parameters, program.address_writes)
        self.printer = Printer(self.state, self.memory)
        self.state.say = weakly(self.printer.call)
        if heap.NAME in self.memory.symbols:
            self.heap = its = heap.Heap(self.state, self.memory.symbols[heap.NAME].base)
            self.state.allocate, self.state.release = weakly(its.allocate), weakly(its.release)
        if setting.blanks:
            self.state.poison = BLANK
        self.state.counting, self.state.placed = setting.counting, setting.placed
        self.state.tally, self.state.tiles = setting.tally, setting.tiles
        self.barriers = Barriers(self.state, kernel, registers)
        if self.barriers.pool.requests and not registers:
            self.state.notices["registers_ignored"] = next(iter(self.barriers.pool.requests.values()))
        self.convergence = Convergence(self.state, program.blocks, binder.value)
        self.stalls = PhaseWaits(self.state.lanes)
        self.interrupted = 0  # instructions taken from the budget so that the scheduler runs after this block
        self.state.stall, self.state.ticks = weakly(self._stall), weakly(self._ticks)
        varying, unset = program.varying if setting.portable else frozenset(), program.maybe_unset
        if setting.tally:  # no values, so none that are undefined
            varying, unset = frozenset(), frozenset()
        self.unset = UnsetRegisters(
            self.state, kernel, unset, binder, setting.shuffles, setting.blanks, varying, setting.copies
        )
        self.executed = ExecutionCounts(program, self.state)
        self.binder = binder
        self.bound = BoundBlocks(weakly(self._bind))
        for block in () if setting.reached_only else program.blocks:
            if block.number not in program.bound:
                self.bound[block.number]
                program.bound.add(block.number)
        self.numbers = [np.array(block.number, np.int32) for block in program.blocks]
        self.lengths = [max(1, len(block.instructions)) for block in program.blocks]
        self.predicates = [self._predicate(block) for block in program.blocks]
        self.spinning = spinning.SpinDetector(self.state, self.memory, program.blocks, program.may_wait, setting.budget)
        self.budget = 0  # instructions until ``spinning`` checks again
        self.reached = 0  # blocks that have started, as places in ``cluster_order``
        self.running = 0  # basic block being executed, named in the message of a timeout
        self.loop_search: LoopSearch | None = None  # once the budget of a batch is used up

    @functools.cached_property
    def launch(self) -> LaunchInfo:
        """Return the description of the launch that observers receive before the first instruction."""
        shared = [
            SharedArray(name, start, size, RESERVED_BARRIERS if name == RESERVED_NAME else 0)
            for name, (start, size) in self.layout.shared.items()
        ]
        buffers = [(a.name, a.base, a.size) for a in self.memory.allocations]
        fresh = frozenset(a.name for a in self.memory.allocations if a.fresh)
        kernel, lanes, given = self.program.kernel, self.state.lanes, (self.arguments, self.parameters)
        return LaunchInfo(kernel, self.grid, shared, self.shared_bytes, buffers, fresh, lanes, self.local_bytes, *given)

    def initial_memory(self) -> GlobalMemory:
        """Return global memory as before the launch. After the launch this works until outputs are written back."""
        variables = [*self.program.variables, *self.program.kernel.variables]
        if self.program.points_to_parameters:
            end = max(p.offset + p.size for p in self.program.kernel.parameters)
            variables.append(Variable(PARAMETERS, "const", ALIGNMENT, end))
        variables += heap.heap_of(self.program.kernel)
        if self.program.is_cooperative:
            variables.append(Variable(GRID_BARRIER, "global", ALIGNMENT, 8))
        variables += maps_in_memory(self.program.kernel, self.arguments)
        placed = [v for v in variables if v.space in ("global", "const")]
        memory = GlobalMemory(buffers_of(self.arguments), placed, placement=self.setting.placement)
        if (stored := self.program.stored_parameters) is not None:
            given = zip(self.program.kernel.parameters, self.arguments, strict=True)
            memory.track(buffers_of(argument for parameter, argument in given if parameter.name in stored))
        if heap.NAME in memory.symbols:
            memory.symbols[heap.NAME].fresh = True
        for position, argument in enumerate(self.arguments):
            if isinstance(argument, TensorMap) and map_name(position) in memory.symbols:
                memory.fill(map_name(position), map_in(memory, argument, position))
        if self.program.points_to_parameters:
            memory.fill(PARAMETERS, parameter_block(self.program.kernel, self.arguments, memory))
        return memory

    def _blocks_per_batch(self, padded: int) -> int:
        registers = max(1, len(self.program.rows))
        lanes = LANES_WITH_GROUPS if self.program.has_large_groups else LANES
        lanes = min(lanes, max(WARP, REGISTER_FILE_BYTES // (registers * 4)))
        lanes = min(lanes, max(WARP, LOCAL_BYTES // max(1, self.local_bytes)))
        return max(1, lanes // padded)

    def _bind(self, number: int) -> Operations:
        """Return the closures of a basic block."""
        operations = [
            operation
            for step in self.program.steps[number]
            for operation in (*self.executed.count_before(step), *self.unset.wrap(step, self.binder.step(step)))
        ]
        operations += self.unset.at_end(self.program.blocks[number])
        return [operation[0] for operation in operations], [operation[1] for operation in operations]

    def _predicate(self, block: Block) -> tuple[Array, bool] | None:
        last = block.terminator
        if last is None or last.guard is None:
            return None
        return self.state.row(last.guard.name, "pred"), last.guard_negated

    # -- the launch ---------------------------------------------------------------------------------------------------

    def run(self, chosen: Sequence[range] = ()) -> None:
        """Run the whole grid, or only the ``chosen`` blocks (places in ``cluster_order``), batch by batch."""
        for observer in self.observers:
            observer.begin(self.launch)
        generation = 0
        order = cluster_order(self.grid)
        with float_state():
            for part in chosen or [range(self.grid.blocks)]:
                for first in range(part.start, part.stop, self.batch_blocks):
                    self.reached = min(part.stop, first + self.batch_blocks)
                    self._run_batch(order[first : self.reached].tolist(), generation, first)
                    generation += 1

    def run_blocks(self, numbers: Sequence[int]) -> None:
        """Run some blocks of the grid, by their numbers, and only those."""
        for observer in self.observers:
            observer.begin(self.launch)
        with float_state():
            for first in range(0, len(numbers), self.batch_blocks):
                self.reached = self.grid.blocks
                self._run_batch(numbers[first : first + self.batch_blocks], first, first)

    @property
    def now(self) -> Instruction | None:
        """Return the first instruction with a source line of the block that runs now, or None."""
        return next((i for i in self.program.blocks[self.running].instructions if line_of(i)), None)

    def notices(self) -> list[Finding]:
        """Return notes on what the simulator approximated in this run."""
        return [
            Finding(kind, "note", line=line_of(i), file=i.source.file if i.source else "")
            for kind, i in self.state.notices.items()
        ]

    def _run_batch(self, numbers: Sequence[int], generation: int, place: int) -> None:
        state, blocks = self.state, len(numbers)
        state.begin(numbers, generation, place)
        for observer in self.observers:
            observer.begin_batch(state.batch)
        self.alive = state.exists & (state.lane_block < blocks)
        self.all_alive = bool(self.alive.all())
        state.alive = self.alive
        self.unset.begin(self.alive)
        self.started = int(np.count_nonzero(self.alive))
        self.barriers.begin()
        self.convergence.begin()
        self.stalls.begin()
        self.position = state.position = np.where(self.alive, 0, DONE).astype(np.int32)
        self.budget = self.spinning.begin()
        self.loop_search = None
        boundary: Boundary = "fault"
        try:
            self._loop()
            self.barriers.pool.check_end()
            boundary = "end"
        except MbarrierFault as fault:
            raise explained(fault, state, self.program.kernel, self.layout.shared) from None
        finally:
            self._hand_over(boundary)
            self.printer.end_batch()
            self.executed.sum_up()
            for observer in self.observers:
                observer.end_batch(state.batch, self.executed.warps, self.executed.lanes)
            self.executed.begin()

    def _hand_over(self, boundary: Boundary) -> None:
        records = list(self.state.trace)
        self.state.trace.clear()
        for observer in self.observers:
            observer.epoch(self.state.batch, records, boundary)

    # -- scheduling ---------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        """Run until every lane has ended."""
        current: int | None = 0
        while True:
            if current is None:
                current = self._next()
                if current is None:
                    return
            current = self._uniform(current) if self.state.full else self._divergent(current)

    def _uniform(self, number: int) -> int | None:
        """Execute blocks from ``number`` on while lanes stay together. Return the next one; None: ``_next`` chooses."""
        state = self.state
        state.active = None if self.all_alive else self.alive
        warps = warps_of(self.alive)
        lanes = int(np.count_nonzero(self.alive))
        bound, lengths, predicates, executed = self.bound, self.lengths, self.predicates, self.executed
        blocks, warp_instructions = self.program.blocks, self.convergence.warp_instructions
        block_warps, block_lanes, trace = executed.block_warps, executed.block_lanes, state.trace
        while True:
            self.running = number
            if number in warp_instructions and not self.convergence.complete(number):
                self.position[self.alive] = number
                state.full = False
                return number
            for operation in bound[number][0]:
                operation()
            block_warps[number] += warps
            block_lanes[number] += lanes
            if executed.guards[number]:
                executed.count_guards(executed.guards[number], state.active)
            self.budget -= lengths[number]
            block = blocks[number]
            if self.budget < 0 and self._used_up(number, self.alive):
                return self._proceed(block, self.alive)
            last = block.terminator
            predicate = predicates[number]
            if predicate is not None:
                taken = predicate[0] if self.all_alive else predicate[0] & self.alive
                count = int(np.count_nonzero(taken))
                if predicate[1]:
                    count = lanes - count
                if 0 < count < lanes:
                    return self._proceed(block, self.alive)
                if count == 0:
                    if block.fallthrough is None:
                        return self._end(self.alive)
                    number = block.fallthrough
                    continue
            if last is None:
                if block.fallthrough is None:
                    return self._end(self.alive)
                number = block.fallthrough
            elif last.opcode == "bra":
                number = block.targets[0]
            elif is_plain(last):
                if lanes < self.started:
                    self.barriers.note_ended(last, self.alive, self.alive)
                self._hand_over("barrier")
                if block.fallthrough is None:
                    return self._end(self.alive)
                number = block.fallthrough
            else:
                return self._leave(block, last, self.alive.copy())
            if len(trace) > self.trace_limit:
                self._hand_over("none")

    def _divergent(self, number: int) -> int | None:
        state = self.state
        active: Array = (self.position == self.numbers[number]) > self.barriers.waiting
        if self.stalls.any_held:
            active &= ~self.stalls.held
        if self.spinning.any_held:
            active &= ~self.spinning.held
            self.spinning.progressed = True
        active = self.convergence.gather(number, active)
        lanes = int(np.count_nonzero(active))
        if not lanes:
            return self._next()
        state.active = active
        self.running = number
        for operation in self.bound[number][1]:
            operation()
        executed = self.executed
        executed.block_warps[number] += warps_of(active)
        executed.block_lanes[number] += lanes
        if executed.guards[number]:
            executed.count_guards(executed.guards[number], active)
        if number in self.program.waiting_blocks and not self.interrupted:
            self.budget = self.spinning.waited(self.budget)
        self.budget -= self.lengths[number]
        if self.budget < 0:
            self._used_up(number, active)
        if len(state.trace) > self.trace_limit:
            self._hand_over("none")
        return self._proceed(self.program.blocks[number], active)

    def _proceed(self, block: Block, active: Array) -> int | None:
        """Move the ``active`` lanes, which have executed ``block``, to their next blocks."""
        last = block.terminator
        if last is None:
            self._go(active, block.fallthrough)
            return self._next()
        taken = active
        if self.predicates[block.number] is not None:
            taken = self._taken(block.number, active)
            stay: Array = active > taken
            if np.count_nonzero(stay):
                self._go(stay, block.fallthrough)
        if np.count_nonzero(taken):
            if last.opcode == "bra":
                self._go(taken, block.targets[0])
            else:
                return self._leave(block, last, taken)
        return self._next()

    def _used_up(self, number: int, active: Array) -> bool:
        """Handle a negative budget: a part is used up, or lanes wait for an mbarrier. Return whether any were held."""
        stalled = self.interrupted > 0
        self.budget += self.interrupted
        self.interrupted = 0
        if self.budget >= 0:
            return stalled
        if self.loop_search is not None:
            self._search_loop(number)
            return False
        waits = stalled and bool(self.stalls.held[active].all())
        answer = self.spinning.check(number, active, self.budget, self._waiting(), waits)
        if answer is None:
            self._more_blocks()
            self._begin_search(number)
            return False
        self.budget, aside = answer
        return aside or stalled

    def _ticks(self) -> int:
        """Return the instructions that the batch has executed."""
        return self.spinning.used(self.budget + self.interrupted)

    def _stall(self, lanes: Array, cell: Array, instruction: Instruction) -> None:
        """Hold ``lanes`` (n,), which wait for the mbarriers at ``cell`` (n,), and run other lanes after this block."""
        self.stalls.hold(lanes, cell, instruction.index, self.state.phases)
        if not self.interrupted:
            self.interrupted = INTERRUPT
            self.budget -= INTERRUPT

    def _waiting(self) -> Array:
        """Return the lanes that wait at a barrier or for other lanes of their warp."""
        waiting: Array = self.barriers.waiting | self.convergence.held
        return waiting

    def _more_blocks(self) -> None:
        """Raise ``MoreBlocks`` if some blocks have not started and a GPU would run more blocks at a time."""
        blocks = spinning.resident(self.grid.blocks, self.state.padded) // self.state.cluster * self.state.cluster
        if self.program.may_wait and self.reached < self.grid.blocks and blocks > self.state.batch.blocks:
            raise spinning.MoreBlocks(blocks)

    def _taken(self, number: int, active: Array) -> Array:
        predicate = self.predicates[number]
        if predicate is None:
            return active
        return active & (~predicate[0] if predicate[1] else predicate[0])

    def _go(self, lanes: Array, target: int | None) -> None:
        if target is None:
            self._end(lanes)
        else:
            self.position[lanes] = target

    def _end(self, lanes: Array) -> int | None:
        self.position[lanes] = DONE
        self.alive = self.state.alive = self.alive & ~lanes
        self.all_alive = False
        self.convergence.wake()
        return self._next()

    def _leave(self, block: Block, last: Instruction, lanes: Array) -> int | None:
        """Execute the terminator ``last``, which is not a plain branch, for ``lanes``."""
        if last.row.effect == "end":
            return self._end(lanes)
        if last.row.effect == "stop":
            lane = int(np.flatnonzero(lanes)[0])
            reason = next((STOPS[word] for word in last.modifiers if word in STOPS), "")
            raise Fault("trap", "stop", last, self.state.actor(lane, last), Stopped(reason))
        if last.opcode == "brx":
            index = last.operands[0]
            assert isinstance(index, Register)
            choice = self.state.row(index.name, "u32")
            beyond = lanes & (choice >= len(block.targets))
            if beyond.any():
                lane = int(beyond.argmax())
                facts = Misuse(value=int(choice[lane]), limit=len(block.targets))
                raise Fault("illegal_access", "branch", last, self.state.actor(lane, last), facts)
            for case, target in enumerate(block.targets):
                self._go(lanes & (choice == case), target)
            return self._next()
        self._go(lanes, block.fallthrough)
        self.barriers.arrive(last, lanes, self.alive)
        return self._next()

    def _next(self) -> int | None:
        """Return the block to run next and set ``state.full``. Release barriers when no lane can run."""
        while True:
            runnable: Array = self.alive > self._waiting()
            if self.stalls.any_held:
                self.stalls.release_if_ended(self.state.phases)
                runnable &= ~self.stalls.held
            if self.spinning.any_held:
                runnable &= ~self.spinning.held
            if not np.count_nonzero(runnable):
                if not np.count_nonzero(self.alive):
                    return None
                self._release()
                continue
            places = np.where(runnable, self.position, NOWHERE)
            number: int = places.item(places.argmin())
            here = np.count_nonzero(places == self.numbers[number])
            self.state.full = bool(here == np.count_nonzero(self.alive))
            return number

    # -- barriers -----------------------------------------------------------------------------------------------------

    def _release(self) -> None:
        """Release a complete barrier or, if none is complete, held lanes. Raise ``Fault`` if none can be released."""
        if self.barriers.release(self.alive, functools.partial(self._hand_over, "barrier")):
            return
        if self.stalls.any_held and (self._land() or self.stalls.retry(self.state.phases)):
            return
        spins = self.spinning.lanes.copy() if self.spinning.any_held else None
        if spins is not None:
            woken = self.spinning.wake(self.alive, self._waiting(), self.budget)
            self.budget = 0
            if woken:
                return
            self._more_blocks()
        if self.convergence.force_progress(self.position):
            return
        if self.stalls.any_held or spins is None:
            shared = self.layout.shared
            raise HangReport(self.state, self.program.kernel, shared, self.stalls, self.barriers).fault()
        if not self.spinning.proven:
            self._timeout(int(self.position[spins & self.alive][0]))
        self._endless_loop(spins & self.alive)

    def _land(self) -> bool:
        """Let bulk copies report to their mbarriers in order until a phase ends. Return whether one has ended."""
        state = self.state
        before = state.phases.completions
        while state.in_flight and state.phases.completions == before:
            state.in_flight.pop(0)()
        return state.phases.completions > before

    def _endless_loop(self, lanes: Array) -> None:
        lane = int(lanes.argmax())
        instruction = self.program.blocks[int(self.position[lane])].instructions[0]
        facts = Endless(others=int(np.count_nonzero(lanes)) - 1 or None)
        raise Fault("timeout", "loop", instruction, self.state.actor(lane, instruction), facts)

    def _timeout(self, number: int) -> None:
        raise self._endless("budget", self.program.blocks[number].instructions[0], int(np.flatnonzero(self.alive)[0]))

    def _begin_search(self, number: int) -> None:
        """Look for the loop that the batch is in, from block ``number`` on."""
        lane = int(np.flatnonzero(self.alive)[0])
        self.loop_search = LoopSearch(self.state, self.program.kernel, self.program.blocks, self.setting.budget, lane)
        self._search_loop(number)

    def _search_loop(self, number: int) -> None:
        assert self.loop_search is not None
        self.budget = self.loop_search.sample(self.executed.block_warps)
        if self.budget:
            return
        found = self.loop_search.found(number)
        if found is None:
            self._timeout(number)
        else:
            raise self._endless(found.case, found.branch, self.loop_search.lane, found.last_line)

    def _endless(self, case: str, instruction: Instruction, lane: int, last_line: int | None = None) -> Fault:
        facts = Endless(self.setting.budget, last_line=last_line)
        return Fault("timeout", case, instruction, self.state.actor(lane, instruction), facts)


def stopped(end: OutOfTime | MemoryError, instruction: Instruction | None) -> Fault:
    """Return the fault of a launch that used up its time or memory at ``instruction``."""
    if isinstance(end, OutOfTime):
        return Fault("timeout", end.case, instruction, facts=Quoted(str(end), current().advice))
    return Fault("memory", "bounds", instruction, facts=Quoted(current().too_much, current().advice))
