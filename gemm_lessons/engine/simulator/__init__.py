"""A device on NumPy: it interprets NVRTC's PTX in lockstep over all lanes of many blocks, counts and checks.

    parser.parse -> cfg.build -> schedule -> decode.Binder -> machine.Machine --events--> counters, checkers

    in:   Compiled, Grid, arguments (arrays and scalars), symbols (variables that the host sets)
    held: the parsed programs, memoised; registers and memories are in ``machine.state``
    out:  Launched: outputs written back into their arrays, findings, counters, or the fault

- ``debug_run``: a block as its source is written; ``final_memory``: contents of memory after a block;
  ``launch_limits``: launches that a GPU refuses, and unexpected errors as ``UnsupportedKernel``
- ``owners``: which blocks store into given words of buffers

The simulator needs no GPU and no driver, and an interpreted kernel cannot touch the machine it runs on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from gemm_lessons.engine import sass
from gemm_lessons.engine.checkers import Checks
from gemm_lessons.engine.checkers.array_ends import OwnArrays
from gemm_lessons.engine.checkers.product_tiles import ProductTiles
from gemm_lessons.engine.checkers.same_value import SameValue
from gemm_lessons.engine.compiler import derived
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.counters.counters import CounterObserver
from gemm_lessons.engine.counters.cross_check import Disagreement
from gemm_lessons.engine.counters.rough import RoughCounts
from gemm_lessons.engine.events import LaunchInfo, Observer
from gemm_lessons.engine.machine import register_pool
from gemm_lessons.engine.machine.block_classes import CodeDecisions
from gemm_lessons.engine.machine.executed import LaneCounts
from gemm_lessons.engine.machine.machine import Machine, Setting, stopped
from gemm_lessons.engine.machine.paging import OutOfPages
from gemm_lessons.engine.machine.prepared import Program, prepare
from gemm_lessons.engine.machine.product_tally import ProductTally
from gemm_lessons.engine.machine.sizes_alone import THREADS, reduced, tables
from gemm_lessons.engine.machine.special import clustered
from gemm_lessons.engine.machine.spin_waits import MoreBlocks
from gemm_lessons.engine.machine.state import Fault
from gemm_lessons.engine.machine.symbols import find, read_back, with_host_values
from gemm_lessons.engine.process.bounds import OutOfTime
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.ptx import records as ptx
from gemm_lessons.engine.ptx.cfg import acting, line_of, moves_registers, reads
from gemm_lessons.engine.ptx.dead_products import PRODUCT
from gemm_lessons.engine.ptx.expansions import expand
from gemm_lessons.engine.ptx.fma_contraction import contract
from gemm_lessons.engine.ptx.inline import inline_calls
from gemm_lessons.engine.ptx.operand_check import check
from gemm_lessons.engine.ptx.pointer_calls import direct_calls
from gemm_lessons.engine.ptx.unset import copying_loads, tracks
from gemm_lessons.engine.ptx.variables import usable_variables, with_state_spaces
from gemm_lessons.engine.ptx.wide_registers import split_wide
from gemm_lessons.engine.ptx.wmma import expand_wmma
from gemm_lessons.engine.records import on_first_use
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Stopped
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import (
    Argument,
    Buffer,
    Grid,
    HostVariable,
    Pages,
    TensorMap,
    Texture,
    buffers_of,
)
from gemm_lessons.engine.records.regex import regex
from gemm_lessons.engine.records.results import Counters, Launched, SampledBlocks
from gemm_lessons.engine.sass.walker import Watch
from gemm_lessons.engine.second_opinion import agreement
from gemm_lessons.engine.simulator.final_memory import FinalMemory, Loads, collect
from gemm_lessons.engine.simulator.launch_limits import as_unsupported, refusal
from gemm_lessons.engine.simulator.owners import StoreOwners

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled
    from gemm_lessons.engine.machine.memory import GlobalMemory

if TYPE_CHECKING:
    from gemm_lessons.engine.simulator.debug_run import Names, compile_as_written, run_as_written, stays_inside
    from gemm_lessons.engine.simulator.final_memory import UNWRITTEN, FinalMemory
else:
    __getattr__ = on_first_use(__name__)

__all__ = ["Disagreement", "Setting", "Simulator"]

# Functions of CUDA (cuda_pipeline_primitives.h) that trap on wrong arguments -> what they require.
STOPPING = {"__pipeline_memcpy_async": "it copies 4, 8 or 16 bytes, and fills no more than those with zeros"}
FOR_DEBUGGING = regex(r"^\s*\.target\s[^\n]*\bdebug\b", re.M)  # set by option -G: ptxas then contracts nothing
WORD = regex(r"[\w$]+")  # a name in PTX
SIZES_BUDGET = 60_000  # PTX instructions of a run for what sizes decide
SAMPLE_BUDGET = 1 << 24  # PTX instructions of a batch of sampled blocks, whose K may be large
MOST_OWNERS = 9 << 18  # threads of a launch, at most, whose stores are run: 65,536 rows of 32 columns, and some
KNOWN = 64  # elements of each buffer that decide which block is tallied
FOLLOWED = 200_000  # basic blocks of machine code, at most, for a picture of its accesses


@lru_cache(maxsize=32)
def _program(text: str, entry: str, joins: bool) -> Program:
    key = derived.key_of("program", text, entry, str(joins))
    program = derived.load(key, Program)
    if program is None:
        with as_unsupported("its PTX is read"):
            program = _read(text, entry, joins)
        derived.note(key, program)
    return program


def _program_of(compiled: Compiled) -> Program:
    with _seen_from(compiled.path):
        return _program(compiled.ptx, compiled.entry, compiled.joins)


def _read(text: str, entry: str, joins: bool) -> Program:
    module = parser.parse(text)
    if entry not in module.kernels:
        raise UnsupportedKernel(f"no kernel {entry} in the PTX")
    kernel, functions, variables = direct_calls(check(module.kernels[entry]), module)
    kernel = inline_calls(kernel, functions)
    twice = {v.name for v in kernel.variables} & {v.name for v in module.variables}
    if twice and module.functions:  # inlined code may mean either of the two variables
        raise UnsupportedKernel(f"two variables that have one name: {min(twice)}")
    kernel = expand(split_wide(expand_wmma(with_state_spaces(kernel, module.variables))))
    if joins and not FOR_DEBUGGING.search(text):
        kernel = contract(kernel)
    return prepare(kernel, usable_variables(kernel, variables))


@contextlib.contextmanager
def _seen_from(path: str) -> Iterator[None]:
    try:
        yield
    except UnsupportedKernel as error:
        raise error.seen_from(path) from error


class Simulator:
    """The built-in device: it interprets PTX, checks and counts.

    ``CompiledKernel.launch`` uses one. Pass one to ``simulate`` for other settings.
    """

    kind: Literal["simulator"] = "simulator"
    name = "simulator"

    def __init__(self, setting: Setting | None = None) -> None:
        self.setting = setting or Setting()

    @property
    def uncounted(self) -> Simulator:
        """Return the same simulator without counters: counting takes longer than running."""
        return Simulator(dataclasses.replace(self.setting, counting=False))

    def kernel(self, compiled: Compiled) -> ptx.Kernel:
        """Return the parsed kernel: its parameters and instructions."""
        return _program_of(compiled).kernel

    @staticmethod
    def parameters(compiled: Compiled) -> Sequence[ptx.KernelParameter]:
        """Return the kernel's parameters; its instructions are not parsed."""
        return parser.parse(compiled.ptx).parameters[compiled.entry]

    def variable(self, compiled: Compiled, name: str) -> ptx.Variable:
        """Return the ``__constant__`` or ``__device__`` variable ``name``. Raise ``ValueError`` if there is none."""
        return find(_program_of(compiled).variables, name)

    def device_variables(self, compiled: Compiled) -> tuple[ptx.Variable, ...]:
        """Return the ``__device__`` variables of the source that the kernel's code names: other launches see what it
        leaves in them. Constants that the code does not read are variables of the module, too."""
        program = _program_of(compiled)
        kept = [it for it in program.variables if it.space == "global" and it.size and not it.pointers]
        kept = [it for it in kept if not it.name.startswith("$")]  # strings of the compiler
        texts = [it.text for it in program.kernel.instructions] if kept else []
        return tuple(it for it in kept if any(it.name in text and it.name in WORD.findall(text) for text in texts))

    def launch(
        self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument], symbols: Sequence[HostVariable] = ()
    ) -> Launched:
        """Run a kernel and write the outputs back into their arrays, also after a fault.

        ``symbols``: variables of the source that the host sets and reads. Raise ``UnsupportedKernel``, mostly before
        anything runs, ``ValueError`` if arguments or symbols do not fit, and ``Disagreement`` if the two engines
        contradict each other.
        """
        request = self._requested(compiled, grid, arguments, symbols)
        refused = self.refusal(compiled, grid)
        if refused is not None:
            return Launched(Counters(), fault=refused)
        try:
            with _seen_from(compiled.path), as_unsupported("it runs", (ValueError,)):
                try:
                    return request.launched(symbols)
                except MoreBlocks as more:  # nothing is written back yet: start again
                    return request.with_settings(block_limit=more.blocks).launched(symbols)
        except (OutOfTime, MemoryError) as end:  # before the first instruction, or after the last
            return Launched(Counters(), fault=stopped(end, None).finding)

    def refusal(self, compiled: Compiled, grid: Grid) -> Finding | None:
        """Return why no GPU of the kernel's architecture would launch ``grid``, or None."""
        return refusal(compiled, _program_of(compiled).kernel, grid)

    def initial_memory(
        self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument], symbols: Sequence[HostVariable] = ()
    ) -> Callable[[], GlobalMemory]:
        """Return a function that makes a fresh global memory, as before a launch, with the source's variables."""
        return self._requested(compiled, grid, arguments, symbols).machine().initial_memory

    def _requested(
        self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument], symbols: Sequence[HostVariable] = ()
    ) -> _RequestedLaunch:
        program = _program_of(compiled)
        if symbols:  # without symbols, the program of the last launch is reused with its memoised facts
            program = dataclasses.replace(program, variables=with_host_values(program.variables, symbols))
        return _RequestedLaunch(self.setting, compiled, program, grid, arguments)

    def follow(
        self,
        compiled: Compiled,
        grid: Grid,
        arguments: Sequence[Argument],
        blocks: range,
        watch: Watch,
        symbols: Sequence[HostVariable] = (),
    ) -> tuple[LaunchInfo, int]:
        """Report every access of the machine code of ``blocks`` to ``watch``. Nothing is written.

        Return the launch, which says where arrays are, and the first address of a block's shared memory. Raise
        ``Uncountable`` if the machine code cannot be followed, and ``UnsupportedKernel``.
        """
        code, machine = self._followed(compiled, grid, arguments, symbols)
        sass.count(code, machine.launch, machine.initial_memory, [blocks], watch, FOLLOWED)
        return machine.launch, code.shared_origin

    def count_by_instruction(self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument]) -> Sums:
        """Count a launch by instruction of the machine code. Nothing is written. Raise as ``follow``."""
        code, machine = self._followed(compiled, grid, arguments)
        return sass.count(code, machine.launch, machine.initial_memory)

    def _followed(
        self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument], symbols: Sequence[HostVariable] = ()
    ) -> tuple[sass.Code, Machine]:
        code = sass.prepare(compiled)
        if code.plan is None:
            raise sass.Uncountable(code.obstacle)
        return code, self._requested(compiled, grid, arguments, symbols).machine()

    def observe(
        self,
        compiled: Compiled,
        grid: Grid,
        arguments: Sequence[Argument],
        observer: Observer,
        symbols: Sequence[HostVariable] = (),
    ) -> None:
        """Run the PTX of the first cluster of a launch with an observer. Nothing is written.

        Raise ``UnsupportedKernel``. A fault ends the run.
        """
        with _seen_from(compiled.path), as_unsupported("it runs", (ValueError,)), contextlib.suppress(Fault):
            machine = self._requested(compiled, grid, arguments, symbols).machine(observer)
            machine.run([range(math.prod(machine.grid.cluster or (1,)))])

    def misread(
        self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument], symbols: Sequence[HostVariable] = ()
    ) -> Finding | None:
        """Return a finding about the first product (``wgmma``) of the first cluster that reads elements other than a
        tile of its matrix. Use it only for a launch whose answer is wrong, because a correct kernel may store its
        arrays in any order. Nothing is written. Raise ``UnsupportedKernel``."""
        if not any(it.row.name == PRODUCT for it in _program_of(compiled).kernel.instructions):
            return None
        tiles = ProductTiles()
        device = Simulator(dataclasses.replace(self.setting, counting=False, tiles=True))
        device.observe(compiled, grid, arguments, tiles, symbols)
        return tiles.finding

    def address_uses(self, compiled: Compiled) -> tuple[Finding | None, bool]:
        """Return a finding for a comparison of an address with a number, and whether addresses may matter at all."""
        program = _program_of(compiled)
        uses = program.address_uses
        if uses.compared is None:
            return None, uses.matters
        line = line_of(program.kernel.instructions[uses.compared])
        return Finding("machine_dependent", "error", "address", line, file=compiled.path), True

    def executed(
        self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument], *, placement: int
    ) -> tuple[int, ...]:
        """Run a launch and write the outputs back; return how many threads executed each PTX instruction.

        ``placement``: which addresses buffers have (``Setting``). Raise ``UnsupportedKernel``.
        """
        request, counts = self._requested(compiled, grid, arguments), LaneCounts()
        with _seen_from(compiled.path), as_unsupported("it runs", (ValueError,)):
            machine = request.with_settings(counting=False, placement=placement).machine(counts)
            with contextlib.suppress(Fault):
                machine.run()
        machine.memory.write_back()
        return tuple(counts.lanes.tolist())

    def sample(
        self,
        compiled: Compiled,
        grid: Grid,
        arguments: Sequence[Argument],
        blocks: Sequence[int],
        alone: bool = False,
        symbols: Sequence[HostVariable] = (),
    ) -> SampledBlocks:
        """Run only these ``blocks`` of a launch, whose buffers may be in ``Pages``, with all blocks of their clusters.
        Count them if ``Setting.counting`` is true. No check runs, except that of ``Setting.portable``; nothing is
        written back but the ``symbols``. ``alone``: also run blocks that may depend on others, as if no other block had
        started. Raise ``UnsupportedKernel``."""
        program = self._requested(compiled, grid, arguments, symbols).program
        if not alone and (why := _dependence(program)):
            return SampledBlocks(dependent=why)
        cluster = clustered(program.kernel, grid).cluster or (1,)
        together = math.prod(cluster)
        if together > cluster[0]:
            return SampledBlocks(dependent="blocks of a cluster are not in one row")
        firsts = sorted({it // together * together for it in blocks})
        members = [first + it for first in firsts for it in range(together)]
        number = len(members)
        limit = 0 if number == grid.blocks else number
        setting = dataclasses.replace(self.setting, block_limit=limit, budget=max(SAMPLE_BUDGET, self.setting.budget))
        observers = [CounterObserver(compiled)] if setting.counting else []
        atomics, executed = _global_atomics(program), LaneCounts()
        shared = SampledBlocks(dependent="atomics on global memory")
        counted = Counters()
        with _seen_from(compiled.path), as_unsupported("blocks of it run", (ValueError,)):
            request = _RequestedLaunch(setting, compiled, program, grid, arguments)
            machine = request.machine(*observers, *[executed] * bool(atomics))
            try:
                machine.run_blocks(members)
                if not alone and atomics and executed.lanes[atomics].any():
                    return shared
                for counters in observers:
                    of_each = [range(first, first + together) for first in firsts]
                    chosen, slow = of_each if limit else None, machine.state.slow_division
                    counted = counters.result(machine.initial_memory, chosen, slow)
                    if setting.count_products:
                        counted = request.tallied(counted, firsts[0])
                    counted = request.estimated(counted, members)
            except OutOfPages:
                if any(it.pages and it.pages.ahead for it in buffers_of(arguments)):  # they may not be needed
                    return self.sample(compiled, grid, [*map(_without_ahead, arguments)], blocks, alone, symbols)
                return SampledBlocks(dependent="a block has more than its share")
            except Fault as fault:  # an atomic may wait for what other blocks do
                return shared if alone or atomics else SampledBlocks(fault=_finding_of(fault, compiled))
            except (OutOfTime, MemoryError) as end:
                return shared if alone else SampledBlocks(fault=stopped(end, machine.now).finding)
        read_back(program.variables, symbols, machine.memory)
        errors = (it for it in machine.unset.findings() if it.severity == "error")
        return SampledBlocks(
            machine.memory.touched_pages(),
            number,
            next(errors, None),
            counters=counted.of_all_blocks(grid.blocks, number),
            stored=machine.memory.stored_pages(),
        )

    def owners(
        self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument], wanted: Mapping[str, Array]
    ) -> tuple[int, ...] | None:
        """Return the blocks of a launch that store into ``wanted``: buffer -> which of its words of 4 bytes, bool (n,).
        Only instructions that decide where it stores are run. None if memory decides, or if that would take long.
        Otherwise no block waits for another one: memory would decide how long."""
        if grid.blocks * grid.threads > MOST_OWNERS:
            return None
        stores = _program_of(compiled).stores
        setting = dataclasses.replace(self.setting, counting=False, placed=True, budget=SAMPLE_BUDGET)
        owners = StoreOwners(wanted)
        with _seen_from(compiled.path), as_unsupported("its stores are run", (ValueError,)):
            try:
                _RequestedLaunch(setting, compiled, stores, grid, arguments).machine(owners).run()
            except (Fault, OutOfPages):
                return None
        return owners.blocks

    @staticmethod
    def decisions(compiled: Compiled) -> CodeDecisions:
        """Return the decisions in the code, from which follow the blocks and sizes that are worth running."""
        return _program_of(compiled).decisions

    @staticmethod
    def of_sizes(
        compiled: Compiled, wanted: Sequence[str], sizes: Mapping[str, Sequence[int] | Array]
    ) -> Mapping[str, Array]:
        """Return what registers have been in launches with these sizes, by what the code computes from sizes alone;
        none if that is impossible. ``sizes``: parameters and special registers -> their values in all launches."""
        program, (given, found) = _program_of(compiled), tables(sizes, wanted)
        buffers = [Buffer("sizes", given), Buffer("values", found, output=True)]
        grid = Grid((len(given) // THREADS, 1, 1), (THREADS, 1, 1))
        setting = Setting(counting=False, checking=False, budget=SIZES_BUDGET)
        try:
            alone = prepare(reduced(program.kernel, wanted, tuple(sizes)), program.variables)
            machine = Machine(alone, grid, buffers, (), {}, setting)
            with contextlib.suppress(Fault):  # those launches are known that were done before
                machine.run()
        except UnsupportedKernel:
            return {}
        machine.memory.write_back()
        launches = len(next(iter(sizes.values())))
        return {name: found[:launches, place] for place, name in enumerate(wanted)}

    def final_memory(self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument]) -> FinalMemory:
        """Run a kernel's only block, check it, and return its memory at the end. Raise ``UnsupportedKernel``."""
        with as_unsupported("it is looked at again"):
            return self._requested(compiled, grid, arguments).final_memory()

    def stays_inside(self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument]) -> bool:
        """Return whether a kernel ends without a fault, and no thread indexes past the end of its own arrays. This is
        what ``final_memory`` would find, at a lower cost. Nothing is written. Raise ``UnsupportedKernel``."""
        with as_unsupported("it is looked at again"):
            return self._requested(compiled, grid, arguments).stays_inside()


@dataclass(frozen=True)
class _RequestedLaunch:
    """A requested launch. It runs once, and once more for each question that the first run leaves open."""

    setting: Setting
    compiled: Compiled
    program: Program
    grid: Grid
    arguments: Sequence[Argument]

    def with_settings(self, **changes: Any) -> _RequestedLaunch:
        """Return the same launch with other settings."""
        return dataclasses.replace(self, setting=dataclasses.replace(self.setting, **changes))

    def machine(self, *observers: Observer) -> Machine:
        """Return a machine at the start of the launch."""
        layout = {name: offset for name, offset, _ in self.compiled.shared_layout}
        with _seen_from(self.compiled.path):
            return Machine(
                self.program, self.grid, self.arguments, observers, layout, self.setting, self._registers_at_launch()
            )

    def _registers_at_launch(self) -> int:
        """Return a thread's registers at launch for a kernel with ``setmaxnreg``; 0 for others or if it was dropped."""
        if not any(map(moves_registers, acting(self.program.kernel))):
            return 0
        if not self.compiled.cubin:
            return register_pool.declared(self.program.kernel)
        kept = any("USETMAXREG" in it.text for it in self.compiled.sass)
        return self.compiled.resources.registers if kept else 0

    def launched(self, symbols: Sequence[HostVariable]) -> Launched:
        """Run the launch, check and count it as the setting says, and write the outputs back."""
        counters = CounterObserver(self.compiled) if self.setting.counting else None
        checks = Checks() if self.setting.checking else None
        observers = [it for it in (counters, checks) if it is not None]
        machine = self.machine(*observers)
        fault: Fault | None = None
        try:
            machine.run()
        except Fault as problem:
            fault = problem.with_traceback(None)  # which holds this frame, and so the machine
        except (OutOfTime, MemoryError) as end:
            return Launched(Counters(), fault=stopped(end, machine.now).finding, printed=machine.printer.result())
        counted = Counters()
        if counters and fault is None:
            try:
                counted = counters.result(machine.initial_memory, slow_division=machine.state.slow_division)
            except (OutOfTime, MemoryError) as end:  # most likely raised where the kernel spends most of its time
                often = self.program.kernel.instructions[int(counters.lanes.argmax())]
                told = checks.result() if checks else ()
                return Launched(Counters(), told, stopped(end, often).finding)
        if counters and fault is None and self.setting.count_products:
            # A block that a kernel cannot predict, because it depends on the data.
            data = [it.array.reshape(-1)[:KNOWN].tobytes() for it in buffers_of(self.arguments)]
            counted = self.tallied(counted, zlib.crc32(b"".join(data)) % self.grid.blocks)
        if counters and fault is None:
            counted = self.estimated(counted)
        found = (*self._told(checks, fault), *self._unset(machine, fault), *machine.notices())
        if machine.state.inactive_sources:
            found = (*self._shuffled(frozenset(machine.state.inactive_sources)), *found)
        if fault is not None:
            agreement.check_fault(machine, fault, partial(sass.prepare, self.compiled), found)
        else:  # for the kinds in doubt, with the true address of every access
            agreement.check_launch(machine, counters, found, self.with_settings(counting=False, placed=True).machine)
        machine.memory.write_back()
        machine.state.images.write_back()
        read_back(self.program.variables, symbols, machine.memory)
        finding = None if fault is None else _finding_of(fault, self.compiled)
        unstored = self._unstored(checks) if checks and self.setting.unstored and fault is None else {}
        stored = checks.stored if checks else frozenset[str]()
        return Launched(counted, found, finding, printed=machine.printer.result(), unstored=unstored, stored=stored)

    def tallied(self, counted: Counters, block: int) -> Counters:
        """Return the counters with that of products per sum of a tensor core, counted in the cluster of ``block``."""
        tally = ProductTally()
        together = math.prod(clustered(self.program.kernel, self.grid).cluster or (1,))
        machine = self.with_settings(counting=False, tally=tally, block_limit=together).machine()
        first = block // together * together
        try:
            machine.run_blocks(range(first, first + together))
        except Fault:  # not counted: what it waits for may depend on its sums
            return counted
        return counted.with_total("products_in_a_sum", tally.most)

    def estimated(self, counted: Counters, blocks: Sequence[int] | None = None) -> Counters:
        """Return the counters, with rough counts if the machine code of a graded kernel could not be followed. These
        need another run of the launch, or of ``blocks`` only."""
        if not (counted.obstacle and self.setting.portable):
            return counted
        rough = RoughCounts()
        machine = self.with_settings(counting=False).machine(rough)
        try:
            machine.run() if blocks is None else machine.run_blocks(blocks)
        except (Fault, OutOfTime, MemoryError):
            return counted
        return dataclasses.replace(counted, rough=rough.result())

    def _told(self, checks: Checks | None, fault: Fault | None) -> Sequence[Finding]:
        """Return the findings of the checks. Run the launch again to settle those in doubt."""
        if checks is None:
            return ()
        if checks.suspects:
            self._settle(checks)
        if checks.blanks and fault is None:
            checks.keep_blanks(self._decisive(checks.blanks))
        return checks.result()

    def _unstored(self, checks: Checks) -> dict[str, int]:
        outputs = {buffer.name: buffer.array.dtype.itemsize for buffer in buffers_of(self.arguments) if buffer.output}
        counts = {name: checks.unstored(name, width) for name, width in outputs.items()}
        return {name: count for name, count in counts.items() if count}

    def final_memory(self) -> FinalMemory:
        """Run and check the launch; return its final memory."""
        arguments = (buffer.name for buffer in buffers_of(self.arguments))
        checks, loads = Checks(), Loads(self.compiled.path, arguments)
        machine = self.with_settings(counting=False).machine(checks, loads)
        fault = None
        try:
            machine.run()
        except Fault as problem:
            fault = problem.finding
        except (OutOfTime, MemoryError) as end:
            fault = stopped(end, machine.now).finding
        machine.memory.write_back()
        return collect(machine, checks.result(), fault, loads)

    def stays_inside(self) -> bool:
        """Run the launch; return whether it ends without a fault and inside of each thread's own arrays."""
        ends = OwnArrays()
        try:
            self.with_settings(counting=False, reached_only=True).machine(ends).run()
        except (Fault, OutOfTime, MemoryError):
            return False
        return not ends.past

    def _shuffled(self, shuffles: frozenset[int]) -> list[Finding]:
        """Return the findings of shuffles that read inactive lanes. Run again to find whether the values mattered."""
        again = self.with_settings(shuffles=shuffles).machine()
        with contextlib.suppress(Fault):  # the same as in the first run
            again.run()
        return [finding for finding in again.unset.findings() if finding.kind == "shuffle_source"]

    def _unset(self, machine: Machine, fault: Fault | None) -> Sequence[Finding]:
        """Return the findings of unset registers. Run again if some were only copied to shared or local memory."""
        if not machine.unset.only_copied or fault is not None or copying_loads(self.program.kernel) is None:
            return machine.unset.findings()
        again = self.with_settings(copies=True, counting=False).machine()
        try:
            again.run()
        except (Fault, OutOfTime, MemoryError):  # a value that was read may be the cause
            return machine.unset.findings()
        return again.unset.findings()

    def _decisive(self, readers: frozenset[int]) -> frozenset[int]:
        """Return which reads of unwritten memory matter: a further run finds those that decide something."""
        instructions = self.program.kernel.instructions
        loads = frozenset(index for index in readers if instructions[index].row.effect == "load")
        if not loads or not tracks(self.program.kernel, loads):
            return readers
        again = self.with_settings(blanks=loads, counting=False).machine()
        try:
            again.run()
        except (Fault, OutOfTime, MemoryError):  # a value that was read may be the cause
            return readers
        return (readers - loads) | again.unset.decisive

    def _settle(self, checks: Checks) -> None:
        """Settle suspected races of stores. Run again and record their values, to find whether they ever differ."""
        instructions = self.program.kernel.instructions
        watched = frozenset(index for pair in checks.suspects for index in pair)
        values = SameValue(checks.suspects, {index: instructions[index].modifiers[-1] for index in watched})
        with contextlib.suppress(Fault):  # the same as in the first run
            self.with_settings(watched=watched).machine(values).run()
        lines = {index: line_of(instructions[index]) for index in watched}
        checks.settle(values.differing, values.rounded, lines)


def _without_ahead(argument: Argument) -> Argument:
    """Return the argument with pages that are made only when they are touched."""
    if isinstance(argument, TensorMap) and isinstance(argument.pointer, Buffer):
        pointer = argument.pointer
        return dataclasses.replace(argument, pointer=dataclasses.replace(pointer, pages=_bare(pointer.pages)))
    if isinstance(argument, Buffer | Texture):
        return dataclasses.replace(argument, pages=_bare(argument.pages))
    return argument


def _bare(pages: Pages | None) -> Pages | None:
    return pages and dataclasses.replace(pages, ahead=())


def _dependence(program: Program) -> str:
    """Return why a block of this kernel may depend on other blocks; empty if it cannot."""
    if program.may_wait:
        return "threads wait for each other"
    if program.is_cooperative:
        return "its blocks wait for each other"
    return ""


def _global_atomics(program: Program) -> list[int]:
    """Return the indices of atomics that may access global memory, which other blocks share."""
    atomics = (it for it in acting(program.kernel) if it.row.effect == "atomic")
    return [it.index for it in atomics if "shared" not in {word.partition("__")[0] for word in it.modifiers}]


def _finding_of(fault: Fault, compiled: Compiled) -> Finding:
    """Return the finding for a fault. A fault inside a function of CUDA is explained at the line that calls it."""
    found = fault.finding
    lines = compiled.source.splitlines()
    if (
        (found.kind, found.case) != ("trap", "stop")
        or found.file != compiled.path
        or not 0 < (found.line or 0) <= len(lines)
    ):
        return found
    text = lines[(found.line or 0) - 1]
    why = next((f"{name}: {why}" for name, why in STOPPING.items() if name in text), "")
    return dataclasses.replace(found, facts=Stopped(why)) if why else found
