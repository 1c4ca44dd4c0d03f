"""Count memory accesses and multiply-adds on the machine code, because the profiler counts machine code.

    Compiled.sass -> operands (typed) -> flow (reads and writes) -> planning (program slice) -> walker -> Sums

    in:   Compiled, LaunchInfo (grid, arguments), global memory before the launch
    held, for one batch of blocks (``lanes``: its threads, each block padded to whole warps):
          registers     uint32 (lanes,), or (1,) if equal for all lanes, by name; predicates bool
          lane groups   mask bool (lanes,) and the basic block where these lanes are (``divergence``)
          memory        bytes of global, shared and local memory, only if addresses or branches depend on them
          sums          Tally per memory instruction: wavefronts, sectors, footprint; multiply-adds; barriers
    out:  Sums for counters, Trace for estimates; ``Uncountable`` if the machine code cannot be followed

ptxas merges neighbouring loads and stores, unrolls loops, predicates branches and drops dead code. This package does
not guess which PTX instruction became which machine instruction: it computes the machine code's own addresses,
predicates and branches. It skips all other instructions (most of a GEMM), so it is fast. After ``Uncountable`` the
counts on PTX are used instead, marked as inexact.

- ``operands``: disassembly as typed records; ``flow``: reads and writes of each instruction
- ``planning``: the instructions to execute, by ``slicing``, with ``divisions`` abbreviated; what depends on the sums of
  tensor cores
- ``walker``: executes and counts: ``lanes``, their ``divergence``, and the ``control_flow`` between basic blocks
- ``operand_fetch``, and the semantics of instructions: ``integers``, ``floats``, ``conversions``, ``functions``,
  ``cross_lane``, ``textures``; ``memory_contents``: for addresses that depend on loaded data
- ``access_cache``: costs of repeated accesses, memoised
- ``useful_work``: instructions that carry data from loads to stores; other costs: ``registers``, ``exposed_latency``,
  ``work_per_thread``, ``inner_loop``; ``moved_loads``: those that ptxas moved past arithmetic
- ``trace``: all instructions that warps execute, for estimates, without most iterations of ``long_loops``; ``reach``:
  what blocks all over the grid touch
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler import cubin, derived, elf, nvrtc
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.events import LaunchInfo
from gemm_lessons.engine.machine.memory import GlobalMemory, shared_origin
from gemm_lessons.engine.ptx.records import Kernel, Symbol
from gemm_lessons.engine.records import on_first_use
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import TensorMap
from gemm_lessons.engine.sass.divisions import Undecided, may_be_slow, shortened, without_slow_paths
from gemm_lessons.engine.sass.flow import SIGNALS, Listing
from gemm_lessons.engine.sass.lanes import launch_constants
from gemm_lessons.engine.sass.memory_contents import Store, StoredHere, Unfollowed
from gemm_lessons.engine.sass.operands import decode
from gemm_lessons.engine.sass.planning import MOVED, OWN, SUMS, Plan, plan, with_conditional_writes, with_global_atomics
from gemm_lessons.engine.sass.textures import texels_of
from gemm_lessons.engine.sass.operands import Uncountable
from gemm_lessons.engine.sass.walker import BLOCK_BUDGET, Walker, Watch, batches

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

if TYPE_CHECKING:
    from gemm_lessons.engine.sass.inner_loop import BANK, OTHER, THREE, reads
    from gemm_lessons.engine.sass.moved_loads import count_moved_loads
    from gemm_lessons.engine.sass.operands import Uncountable
    from gemm_lessons.engine.sass.trace import Trace
else:
    __getattr__ = on_first_use(__name__)

__all__ = ["Code", "Uncountable", "count", "prepare"]


OWN_STORES_BUDGET = 8_000  # basic blocks, which then take some seconds


@dataclass(frozen=True)
class Code:
    """A kernel's machine code, ready to be counted. If it cannot be, ``plan`` is None and ``obstacle`` says why."""

    plan: Plan | None
    parameter_offset: int = 0
    constants: Mapping[int, bytes] = field(default_factory=dict)
    local_bytes: int = 0
    shared_origin: int = 0  # first address of a block's shared memory
    obstacle: str = ""
    variables: cubin.Variables = field(default_factory=cubin.Variables)
    program: Listing | None = None  # the code as ptxas made it
    places: tuple[int, ...] = ()  # of the parameters, from the start of all of them
    key: str | None = None  # of this record on disk (``compiler.derived``)
    all_fast: bool = False  # the plan holds if no division, reciprocal or root of float32 takes its slow path

    @cached_property
    def with_full_divisions(self) -> Code:
        """Return the same code with every step of a division executed. Raise ``Uncountable``."""
        assert self.program is not None
        same = self.plan is not None and self.plan.program is self.program
        return self if same else replace(self, plan=plan(self.program))

    @cached_property
    def with_own_stores(self) -> Code:
        """Return the same code with every step executed, also of what is stored in global memory. Raise
        ``Uncountable``."""
        assert self.program is not None
        return replace(self, plan=plan(self.program, own_stores=True))

    @cached_property
    def with_fast_divisions(self) -> Plan:
        """Return the plan of code whose divisions never take their slow path. Raise ``Uncountable``."""
        assert self.program is not None
        signals = any(d.name in SIGNALS for d in self.program.code)
        return plan(without_slow_paths(shortened(self.program)), signals=signals)

    @cached_property
    def with_mbarriers(self) -> Plan:
        """Return the plan that also distinguishes mbarriers. Raise ``Uncountable``."""
        assert self.program is not None
        fast = without_slow_paths(shortened(self.program)) if self.all_fast else self.program
        return plan(fast, signals=True)

    def placed(self, kernel: Kernel, parameters: bytes) -> bytes:
        """Return the parameter block of a launch as machine code reads it, from ``parameter_offset`` on."""
        if not self.places:
            return parameters
        moved = bytearray(max(self.places) - min(self.places) + len(parameters))
        for place, it in zip(self.places, kernel.parameters, strict=True):
            start = place - min(self.places)
            moved[start : start + it.size] = parameters[it.offset : it.offset + it.size]
        return bytes(moved)

    def constants_in(self, memory: GlobalMemory) -> dict[int, bytes]:
        """Return the constant banks filled from ``memory``: values that the host may have set, and addresses."""
        banks = {bank: bytearray(data) for bank, data in self.constants.items()}
        for bank, start, name, addend in self.variables.addresses:
            if (variable := memory.symbols.get(name)) is not None:
                banks[bank][start : start + 8] = (variable.base + addend).to_bytes(8, "little")
        for bank, start, name in self.variables.values:
            if (variable := memory.symbols.get(name)) is not None:
                data = memory.arena[variable.offset : variable.offset + variable.size].tobytes()
                banks[bank][start : start + len(data)] = data
        return {bank: bytes(data) for bank, data in banks.items()}


@lru_cache(maxsize=4)
def prepare(compiled: Compiled) -> Code:
    """Decode a kernel and find the instructions to execute."""
    key = _key_of(compiled)
    kept = derived.load(key, Code)
    if kept is not None:
        return kept
    code = _prepared(compiled, key)
    if code.plan is not None:
        derived.note(key, code)
    return code


def _key_of(compiled: Compiled) -> str | None:
    """Return the key on disk of a kernel's ``Code``; None if it is not kept."""
    disassembler = nvrtc.disassembler()
    if disassembler is None or not compiled.cubin:
        return None
    local = str(compiled.resources.stack_bytes)
    by = compile_cache.identity(disassembler)
    return derived.key_of("code", compiled.cubin, compiled.entry, compiled.arch, compiled.path, local, by)


def _prepared(compiled: Compiled, key: str | None) -> Code:
    try:
        program = _program(compiled)
        parts = elf.sections(compiled.cubin)
        offset = cubin.parameter_offset(parts, compiled.entry)
        if offset is None or not compiled.arch.startswith(("sm_7", "sm_8", "sm_90", "sm_10", "sm_12")):
            raise Uncountable(f"the constant bank of {compiled.arch} is not known")
        banks = cubin.constant_banks(parts, compiled.entry)
        local = compiled.resources.stack_bytes
        origin = shared_origin(compiled.arch)
        program, all_fast = with_global_atomics(with_conditional_writes(program)), False
        try:
            short = plan(shortened(program))
        except Uncountable as obstacle:
            if str(obstacle) not in (SUMS, MOVED) or not may_be_slow(program.code):
                raise
            short, all_fast = plan(without_slow_paths(shortened(program))), True
        return Code(
            short, offset, banks, local, origin, variables=cubin.variables(parts), program=program,
            places=cubin.parameter_places(parts, compiled.entry), key=key, all_fast=all_fast,
        )  # fmt: skip
    except Uncountable as obstacle:
        return Code(None, obstacle=str(obstacle))
    except (KitError, UnsupportedKernel, ValueError) as problem:
        return Code(None, obstacle=f"no machine code: {problem}")


def _program(compiled: Compiled) -> Listing:
    if not compiled.sass:
        raise Uncountable("there is no machine code (no cubin beside the PTX)")
    code = tuple(decode(index, instruction) for index, instruction in enumerate(compiled.sass))
    if len({d.source.address for d in code}) != len(code):
        raise Uncountable("the kernel calls device functions")
    labels = {label: d.index for d in code for label in d.source.labels}
    return Listing(code, labels)


def count(
    code: Code,
    launch: LaunchInfo,
    memory: Callable[[], GlobalMemory],
    blocks: Sequence[range] | None = None,
    watch: Watch | None = None,
    budget: int = BLOCK_BUDGET,
    unfollowed: Unfollowed | None = None,
) -> Sums:
    """Count one launch, or some of its ``blocks``. Raise ``Uncountable``.

    ``memory`` returns global memory before the launch; ``watch`` is called for every access; ``budget`` limits the
    basic blocks executed for a batch; ``unfollowed``: bytes that instructions write that are not executed.
    """
    if watch is not None:  # ``watch`` must not be called twice for an access
        code = code.with_full_divisions
    count = _Count(code, launch, memory, blocks or [range(launch.grid.blocks)], watch, budget, unfollowed)
    key = count.key
    kept = derived.load(key, Sums)
    if kept is not None:
        return kept
    try:
        sums = count.sums()
    except Undecided:
        count = replace(count, code=code.with_full_divisions)
        sums = count.sums()
    except StoredHere as reason:
        if watch is not None:
            raise
        try:
            count = replace(count, code=code.with_own_stores, budget=min(budget, OWN_STORES_BUDGET))
            sums = count.sums()
        except Uncountable:
            raise reason from None
    if not count.reads_memory:
        derived.note(key, sums)
    return sums


def _boxes_only(launch: LaunchInfo) -> bool:
    """Return whether the kernel takes addresses of parameters, and of tensor maps only."""
    parameters, instructions = launch.kernel.parameters, launch.kernel.instructions
    taken = {it.name for instruction in instructions for it in instruction.operands if isinstance(it, Symbol)}
    given = zip(parameters, launch.arguments, strict=False)  # none where machine code is followed alone
    by_address = [argument for parameter, argument in given if parameter.name in taken]
    return bool(by_address) and all(isinstance(argument, TensorMap) for argument in by_address)


@dataclass(frozen=True)
class _Count:
    """The arguments of ``count``."""

    code: Code
    launch: LaunchInfo
    memory: Callable[[], GlobalMemory]
    blocks: Sequence[range]
    watch: Watch | None
    budget: int
    unfollowed: Unfollowed | None

    @cached_property
    def constants(self) -> Mapping[int, bytes]:
        """Return the constant banks with what the loader and the host write into them."""
        code = self.code
        return code.constants_in(self.memory()) if code.variables.there else code.constants

    @property
    def reads_memory(self) -> bool:
        """Return whether the counts may depend on the contents of other memory, or on what the PTX stored there."""
        assert self.code.plan is not None
        return bool(self.code.plan.spaces or self.code.plan.moved)

    @property
    def key(self) -> str | None:
        """Return the key on disk of counts that read no memory; None if they are not kept."""
        code, launch = self.code, self.launch
        if code.key is None or self.watch is not None or self.reads_memory or texels_of(launch.arguments):
            return None
        kernel, boxes, constants = launch.kernel, _boxes_only(launch), sorted(self.constants.items())
        places = [(it.offset, it.size) for it in kernel.parameters]
        facts = (launch.grid, self.blocks, self.budget, places, kernel.target, kernel.by_warps, boxes, constants)
        return derived.key_of("sums", code.key, launch.parameters, repr(facts))

    def sums(self) -> Sums:
        """Count."""
        code, plan, launch = self.code, self.code.plan, self.launch
        assert plan is not None
        in_cluster = "shared" in plan.spaces and math.prod(launch.grid.cluster or (1,)) > 1
        if self.unfollowed is None and in_cluster:
            raise Uncountable("addresses or branches depend on shared memory, which is shared in a cluster")
        if self.unfollowed is None and plan.moved:
            raise Uncountable(MOVED)
        before = self.memory() if plan.spaces else None
        constants = dict(self.constants) | launch_constants(
            launch.grid, code.parameter_offset, code.placed(launch.kernel, launch.parameters), launch.kernel.target,
            boxes_only=_boxes_only(launch),
        )  # fmt: skip
        sums = Sums()
        unfollowed = self.unfollowed if plan.moved or in_cluster else None
        store = None
        if before is not None:
            store = Store(before, launch.shared_bytes, code.local_bytes, unfollowed, OWN in plan.spaces)
        textures = texels_of(launch.arguments)
        for geometry in batches(launch.grid, self.blocks, launch.kernel.by_warps, scattered=self.watch is None):
            Walker(plan, geometry, constants, sums, store, self.watch, textures).run(self.budget)
        return sums
