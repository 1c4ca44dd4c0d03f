"""Counts memory accesses and multiply-adds on the machine code itself, because that is what the profiler counts.

    Compiled.sass -> operands (typed) -> flow (what addresses and branches depend on) -> walker (lanes, fronts) -> Sums

ptxas joins neighbouring loads and stores, unrolls, turns branches into predicates and drops dead code. Instead of
guessing which PTX instruction became which machine instruction, the machine code's own addresses, predicates and
branches are computed; all other instructions are left out (most of a GEMM), so this is fast. What cannot be followed
raises ``Uncountable``, and the counts on PTX are used instead, marked as inexact.

- ``operands``, ``cubin``: disassembly and cubin as typed records; ``flow``: what each instruction reads and writes
- ``planning``: what has to be executed, by ``slicing``, with ``divisions`` cut short
- ``walker``: executes and counts it: ``lanes``, their ``divergence``, and the ``control_flow`` between blocks
- ``operand_fetch``, and what instructions compute: ``integers``, ``floats``, ``conversions``, ``functions``,
  ``cross_lane``, ``textures``; ``memory_contents``: where addresses depend on loaded data
- ``uncountable``: the exception for what cannot be followed; ``access_cache``: accesses that repeat
- other costs: ``registers``, ``exposed_latency``, ``work_per_thread``; ``trace``: all of it, for estimates
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from gemm_lessons.engine.compiler import elf
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.events import LaunchInfo
from gemm_lessons.engine.machine.memory import GlobalMemory, shared_origin
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass import cubin
from gemm_lessons.engine.sass.divisions import Undecided, shortened
from gemm_lessons.engine.sass.flow import Listing
from gemm_lessons.engine.sass.functions import division_seeds
from gemm_lessons.engine.sass.lanes import Geometry, launch_constants
from gemm_lessons.engine.sass.memory_contents import Store
from gemm_lessons.engine.sass.operand_fetch import Approximation
from gemm_lessons.engine.sass.operands import decode
from gemm_lessons.engine.sass.planning import Plan, plan
from gemm_lessons.engine.sass.textures import texels_of
from gemm_lessons.engine.sass.uncountable import Uncountable
from gemm_lessons.engine.sass.walker import BLOCK_BUDGET, Walker, Watch, batches

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

__all__ = ["Code", "Uncountable", "count", "prepare"]


@dataclass(frozen=True)
class Code:
    """A kernel's machine code, ready to be counted; or ``plan`` None and the ``obstacle``."""

    plan: Plan | None
    parameter_offset: int = 0
    constants: Mapping[int, bytes] = field(default_factory=dict)
    local_bytes: int = 0
    shared_origin: int = 0  # where a block's shared memory begins
    obstacle: str = ""
    variables: cubin.Variables = field(default_factory=cubin.Variables)
    program: Listing | None = None  # as ptxas made it

    @cached_property
    def careful(self) -> Code:
        """The same with every step of a division. Raises ``Uncountable``."""
        assert self.program is not None
        return replace(self, plan=plan(self.program))

    @cached_property
    def signalling(self) -> Plan:
        """What has to be executed to tell mbarriers apart, too. Raises ``Uncountable``."""
        assert self.program is not None
        return plan(self.program, signals=True)

    def constants_in(self, memory: GlobalMemory) -> dict[int, bytes]:
        """The constant banks with what lies in ``memory``: values that the host may have set, and addresses."""
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
    """Decode a kernel and find what has to be executed."""
    try:
        program = _program(compiled)
        parts = elf.sections(compiled.cubin)
        offset = cubin.parameter_offset(parts, compiled.entry)
        if offset is None or not compiled.arch.startswith(("sm_7", "sm_8", "sm_90")):
            raise Uncountable(f"the constant bank of {compiled.arch} is not known")
        banks = cubin.constant_banks(parts, compiled.entry)
        local = compiled.resources.stack_bytes
        origin = shared_origin(compiled.arch)
        short = plan(shortened(program))
        return Code(short, offset, banks, local, origin, variables=cubin.variables(parts), program=program)
    except Uncountable as obstacle:
        return Code(None, obstacle=str(obstacle))
    except (KitError, UnsupportedKernel, ValueError) as problem:
        return Code(None, obstacle=f"no machine code: {problem}")


def _program(compiled: Compiled) -> Listing:
    if not compiled.sass:
        raise Uncountable("there is no machine code")
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
) -> Sums:
    """Count one launch, or some of its ``blocks``. ``memory`` gives global memory as it was before; ``watch`` is told
    of every access; ``budget`` bounds the basic blocks of a batch. Raises ``Uncountable``."""
    if watch is not None:  # which must not be told twice
        code = code.careful
    count = _Count(code, launch, memory, blocks or [range(launch.grid.blocks)], watch, budget)
    try:
        return count.certain()
    except Undecided:
        return replace(count, code=code.careful).certain()


@dataclass(frozen=True)
class _Count:
    """What is to be counted, as ``count`` was asked."""

    code: Code
    launch: LaunchInfo
    memory: Callable[[], GlobalMemory]
    blocks: Sequence[range]
    watch: Watch | None
    budget: int

    def certain(self) -> Sums:
        """With any last bits of functions that hardware approximates it must be the same."""
        assert self.code.plan is not None
        exempt = division_seeds(self.code.plan.program)
        approximation = Approximation(exempt=exempt)
        sums = self._once(approximation)
        for shift in (1, -1) if approximation.used and self.watch is None else ():
            other = self._once(Approximation(shift, exempt=exempt))
            if other.figures() != sums.figures():
                raise Uncountable("addresses or branches depend on the last bits of an approximate function")
            sums.certain = sums.certain and other.touched() == sums.touched()
        return sums

    def _once(self, approximation: Approximation) -> Sums:
        code, plan, launch = self.code, self.code.plan, self.launch
        assert plan is not None
        before = self.memory() if plan.spaces or code.variables.there else None
        constants = dict(code.constants) if before is None else code.constants_in(before)
        constants |= launch_constants(launch.grid, code.parameter_offset, launch.parameters, launch.kernel.target)
        sums = Sums()
        store = Store(before, launch.shared_bytes, code.local_bytes) if before is not None and plan.spaces else None
        textures = texels_of(launch.arguments)
        for first, size in batches(launch.grid, self.blocks):
            geometry = Geometry(launch.grid, first, size, launch.kernel.by_warps)
            Walker(plan, geometry, constants, sums, store, approximation, self.watch, textures).run(self.budget)
        return sums
