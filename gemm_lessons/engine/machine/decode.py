"""Binds each instruction to a closure, once per launch. Everything known before the run is decided here.

Unsupported opcodes, types and modifiers raise ``UnsupportedKernel`` before anything runs. A closure works on all lanes:
``state.active`` is the mask of lanes that execute (None = all), and ``state.full`` means that other lanes may be
overwritten because they are padding or have ended.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP, Barrier
from gemm_lessons.engine.machine import heap
from gemm_lessons.engine.machine.access import Layout, form_of, is_shared_or_local
from gemm_lessons.engine.machine.atomics import bind_atomic
from gemm_lessons.engine.machine.clusters import bind_async_store
from gemm_lessons.engine.machine.convergence import ballot
from gemm_lessons.engine.machine.copies import bind_copy, bind_reduction
from gemm_lessons.engine.machine.groups import Workspace, bind_fma, bind_loads, bind_moves, bind_multiply_adds
from gemm_lessons.engine.machine.map_updates import bind_proxy_fence, bind_tensor_map
from gemm_lessons.engine.machine.matrices import bind_matrix_load, bind_matrix_store, bind_transpose
from gemm_lessons.engine.machine.mbarriers import FORMS, bind_async_fence, bind_mbarrier
from gemm_lessons.engine.machine.memory import LOCAL_WINDOW, PARAMETERS, RANK_SHIFT, SHARED_WINDOW, WINDOW_SIZE
from gemm_lessons.engine.machine.printing import write_counts
from gemm_lessons.engine.machine.products import bind_products
from gemm_lessons.engine.machine.special import HARDWARE_DEPENDENT
from gemm_lessons.engine.machine.state import Fault, State, weakly
from gemm_lessons.engine.machine.textures import ImageBinder
from gemm_lessons.engine.machine.transfers import Binding, MemoryBinder
from gemm_lessons.engine.machine.warpgroups import bind_warpgroup
from gemm_lessons.engine.machine.warps import MemberGroups, bind_warp
from gemm_lessons.engine.ptx.cfg import Block, line_of, unsupported
from gemm_lessons.engine.ptx.inline import RUNTIME
from gemm_lessons.engine.ptx.opcodes import NOTHING_TO_DO
from gemm_lessons.engine.ptx.records import (
    CLOCKS,
    SIZES,
    Address,
    Immediate,
    Instruction,
    KernelParameter,
    Operand,
    PredicatePair,
    Register,
    Symbol,
    Vector,
    elements_of,
    places_before,
)
from gemm_lessons.engine.ptx.schedule import GROUPED, FmaGroup, LoadGroup, MoveGroup, ProductGroup, Single, Step
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Stopped
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.division import SLOW, has_slow_path
from gemm_lessons.engine.semantics.operation import DTYPES, Plain

Run = Callable[[], object]
Op = tuple[Run, Run]  # closures for when all living lanes execute, and for when only state.active does
Guard = Callable[[], Array | None]


RANKS = 0xFF  # largest rank of a block in a cluster that an address can hold
NOT_ALLOCATED = "free() of an address that malloc() did not return, or of one that is free"
# L2 eviction priorities as ptxas encodes them for sm_80 and sm_90.
POLICIES = {"L2__evict_unchanged": 0, "L2__evict_first": 2, "L2__evict_last": 4, "L2__evict_normal": 6}


def both(run: Run) -> Op:
    """Return an operation with the same closure for all lanes and for some."""
    return run, run


class Binder:
    """Binds the steps of one kernel to one ``State``."""

    def __init__(
        self,
        state: State,
        layout: Layout,
        parameters: Sequence[KernelParameter],
        block: bytes,
        versioned: Mapping[int, frozenset[str]],
    ) -> None:
        self.state = state
        self.layout = layout
        self.parameters = {p.name: p for p in parameters}
        self.parameter_bytes = block
        self.versioned = versioned  # instruction -> registers that it writes, the bases of memoised addresses
        self.memory = MemoryBinder(state, layout, weakly(self.value))
        self.workspace = Workspace(state.lanes)

    # -- operands -----------------------------------------------------------------------------------------------

    def value(self, operand: Operand | None, code: str) -> Any:
        """Return a source as an array (lanes,) or a NumPy scalar, of dtype ``code``. Raise ``UnsupportedKernel``."""
        if code not in DTYPES:
            raise UnsupportedKernel(f"type {code} is not supported here")
        dtype = DTYPES[code]
        if isinstance(operand, Register):
            special = self.state.special.get(operand.name)
            if special is not None:
                return _special(special, np.dtype(dtype), operand.name)
            if operand.name not in self.state.rows:
                raise UnsupportedKernel(f"special register {operand.name} is not supported")
            return self.state.row(operand.name, code)
        if isinstance(operand, Immediate):
            if operand.is_float:
                return _float(operand, np.dtype(dtype))
            return _from_bits(operand.value, np.dtype(dtype).itemsize * 8, dtype)
        if isinstance(operand, Symbol) and self.current is not None:
            address, bits = self.layout.address(operand, self.current), np.dtype(dtype).itemsize * 8
            if self.state.cluster > 1 and operand.name in self.layout.shared:
                return (address + self.state.rank_bits).astype(f"u{bits // 8}").view(dtype)
            return _from_bits(address, bits, dtype)
        raise UnsupportedKernel(f"operand not supported: {operand}")

    current: Instruction | None = None  # the instruction being bound, for messages

    def guard(self, instruction: Instruction) -> Guard | None:
        """Return a function for the mask of active lanes whose guard predicate is true, or None without a guard."""
        if instruction.guard is None:
            return None
        state = self.state
        predicate = state.row(instruction.guard.name, "pred")
        negated = instruction.guard_negated
        scratch = np.zeros(state.lanes, np.bool_)

        def mask() -> Array:
            if negated:
                np.logical_not(predicate, out=scratch)
            else:
                scratch[...] = predicate
            if state.active is not None:
                np.logical_and(scratch, state.active, out=scratch)
            return scratch

        return mask

    # -- steps ----------------------------------------------------------------------------------------------------

    def step(self, step: Step) -> list[Op]:
        """Return the closures of one step, in order."""
        if isinstance(step, ProductGroup) and (products := self._products(step)) is not None:
            return products
        if isinstance(step, Single | ProductGroup) or not self._rows_of_one_file(step):
            members = (step.instruction,) if isinstance(step, Single) else step.instructions
            return [
                operation
                for member in members
                for operation in (*self._bind_named(member), *self.version_updates(member))
            ]
        if isinstance(step, FmaGroup):
            bind = bind_fma if step.kind == "fma.rn.f32" else bind_multiply_adds
            run = bind(self.state, step, self.workspace)
        elif isinstance(step, LoadGroup):
            run = bind_loads(self.state, self.memory, step)
        else:
            run = bind_moves(self.state, step)
        return [both(run), *self.version_updates(*step.instructions)]

    def _products(self, group: ProductGroup) -> list[Op] | None:
        """Return the closure of independent products. None if they cannot be bound; one bound alone then raises why."""
        binding = Binding(self.state, self.memory, group.instructions[0], None, self.value)
        try:
            return [both(bind_products(binding, group.instructions)), *self.version_updates(*group.instructions)]
        except UnsupportedKernel:
            return None

    def _bind_named(self, instruction: Instruction) -> list[Op]:
        """Return the closures of ``instruction``. Raise ``UnsupportedKernel`` with its text and line."""
        self.current = instruction
        try:
            return self.single(instruction)
        except UnsupportedKernel as error:
            text = f"{error}" if instruction.text in str(error) else f"{error}: `{instruction.text}`"
            before = self.layout.kernel.instructions[: instruction.index + 1]
            raise UnsupportedKernel(text, line_of(instruction), places_before(before)) from error

    def _rows_of_one_file(self, group: FmaGroup | LoadGroup | MoveGroup) -> bool:
        """Return whether all registers of a group are rows of one file. Inline PTX may load 32 bits into a 64-bit
        register, and a move may read a special register."""
        width = GROUPED[group.kind] if isinstance(group, FmaGroup) else 32
        known: bool | None = group.__dict__.get("_one_file")
        if known is None:
            names = {o.name for i in group.instructions for o in i.operands if isinstance(o, Register)}
            known = group.__dict__["_one_file"] = all(self.state.rows.get(it, ("", 0))[0] == width for it in names)
        return known

    def version_updates(self, *instructions: Instruction) -> list[Op]:
        """Return closures that increment the versions of the address registers that ``instructions`` write."""
        names = {name for it in instructions for name in self.versioned.get(it.index, ())}
        return [both(functools.partial(_increment_version, self.state.versions, name)) for name in sorted(names)]

    def single(self, instruction: Instruction) -> list[Op]:
        """Return the closures of one instruction, bound as its row of ``ptx/opcodes.py`` defines."""
        row = instruction.row
        if row.name in BINDERS:
            return BINDERS[row.name](self, instruction)
        if row.effect in NOTHING_TO_DO:
            return [both(self._fence(instruction))] if row.effect == "fence" and self.state.cluster > 1 else []
        if not row.computes:
            raise unsupported(instruction)
        return self.arithmetic(instruction)

    def _fence(self, instruction: Instruction) -> Run:
        """Return the closure that notes that lanes have executed a fence."""
        state, guard = self.state, self.guard(instruction)

        def run() -> None:
            mask = state.active if guard is None else guard()
            state.fenced |= state.alive if mask is None else mask

        return run

    def warp_barrier(self, instruction: Instruction) -> list[Op]:
        """Bind ``bar.warp.sync``, which only adds a record to the trace."""
        state, line = self.state, line_of(instruction)
        guard = self.guard(instruction)
        value = self.value(instruction.operands[0], "u32")
        members = np.broadcast_to(value, (state.lanes,)).reshape(-1, WARP)
        known = MemberGroups(state, instruction)
        always = guard is None and value.ndim == 0  # the member mask is the same each time
        last: tuple[Array | None, Array] | None = None
        record = Barrier("warp")

        def run() -> None:
            nonlocal last, record
            if last is not None and last[0] is state.active and last[1] is state.alive:
                state.trace.append(record)
                return
            mask = state.active if guard is None else guard()
            lanes = None if mask is None else mask.copy()
            active = known.all_lanes if lanes is None else lanes.reshape(-1, WARP)
            group = known.of(members, active)
            partial = bool((active & (group != ballot(state.alive)[:, None])).any())
            groups = np.where(active, group, 0).reshape(-1) if partial else None
            record = Barrier("warp", None, lanes, line, groups=groups)
            state.trace.append(record)
            if always and (state.active is None or state.active is state.alive):  # neither array is changed in place
                last = state.active, state.alive

        return [both(run)]

    def call_runtime(self, instruction: Instruction) -> list[Op]:
        """Bind calls of the runtime: ``printf`` is collected until the batch ends; a failed ``assert`` ends the kernel;
        ``malloc`` and ``free`` use the heap of ``heap.py``."""
        state, memory = self.state, self.layout.memory
        target = instruction.operands[0]
        if not isinstance(target, Symbol) or target.name not in RUNTIME:
            raise unsupported(instruction, "call")
        if target.name == "vprintf":
            formats, arguments = (self.value(operand, "s64") for operand in instruction.operands[1:3])
            guard = self.guard(instruction)
            rest = instruction.operands[3:]
            results = [state.row(operand.name, "s32") for operand in rest if isinstance(operand, Register)]

            def say() -> None:
                active = state.active if guard is None else guard()
                state.say(formats, arguments, active)
                for result in results:
                    lanes = state.alive if active is None else active & state.alive
                    write_counts(result, np.broadcast_to(formats, state.lanes), lanes, memory.text_at)

            return [both(say)]
        if target.name in heap.FUNCTIONS:
            return [both(self._heap_call(instruction, target.name == "malloc"))]
        message = self.value(instruction.operands[1], "s64")

        def fail() -> None:
            lane = 0 if state.active is None else int(state.active.argmax())
            facts = Stopped(text=memory.text_at(int(message[lane])))
            raise Fault("trap", "assert", instruction, state.actor(lane, instruction), facts)

        return [both(fail)]

    def _heap_call(self, instruction: Instruction, allocates: bool) -> Run:
        state, given = self.state, self.value(instruction.operands[1], "s64")
        guard = self.guard(instruction)
        result = instruction.operands[2] if len(instruction.operands) > 2 else None
        target = state.row(result.name, "s64") if isinstance(result, Register) else None

        def run() -> None:
            active = state.active if guard is None else guard()
            lanes = np.flatnonzero(state.alive if active is None else active & state.alive)
            if allocates:
                addresses = state.allocate(given, lanes)
                if target is not None:
                    target[lanes] = addresses
            elif (wrong := state.release(given, lanes)) is not None:
                raise Fault("trap", "stop", instruction, state.actor(wrong, instruction), Stopped(NOT_ALLOCATED))

        return run

    def assign(self, instruction: Instruction, target: Array, function: Callable[..., Any], *sources: Any) -> Op:
        """Return the operation that computes ``function(out, *sources)`` and writes executing lanes to ``target``."""
        state = self.state
        guard = self.guard(instruction)
        scratch = state.scratch(target.dtype)

        def masked() -> None:
            function(scratch, *sources)
            np.copyto(target, scratch, where=state.active if guard is None else guard())

        if guard is not None:
            return masked, masked
        if isinstance(function, Plain):
            return function.into(target, sources), masked
        return functools.partial(function, target, *sources), masked

    def destination(self, operand: Operand, code: str, instruction: Instruction) -> tuple[Array, bool]:
        """Return the row for a result of type ``code``, and whether it is wider, so that the result is extended."""
        if not isinstance(operand, Register) or operand.name not in self.state.rows or code not in DTYPES:
            raise unsupported(instruction)
        width, _ = self.state.rows[operand.name]
        size = np.dtype(DTYPES[code]).itemsize * 8
        if isinstance(width, int) and width > size and code != "pred":
            return self.state.row(operand.name, ("s" if code[0] == "s" else "u") + str(width)), True
        return self.state.row(operand.name, code), False

    # -- computation ----------------------------------------------------------------------------------------------

    def arithmetic(self, instruction: Instruction) -> list[Op]:
        """Bind an instruction from the table of ``semantics``."""
        if not instruction.operands:
            raise unsupported(instruction)
        first = instruction.operands[0]
        pair = (first.first, first.second) if isinstance(first, PredicatePair) else (first,)
        operation = semantics.lookup(instruction.opcode, instruction.modifiers, len(pair))
        if operation is None:
            raise unsupported(instruction)
        before: list[Op] = []
        sources = []
        for operand, code in zip(instruction.operands[1:], operation.sources, strict=False):
            if isinstance(operand, PredicatePair) and operand.negated and operand.first is not None:
                negated = np.zeros(self.state.lanes, np.bool_)
                predicate = self.state.row(operand.first.name, "pred")
                before.append(both(functools.partial(np.logical_not, predicate, out=negated)))
                sources.append(negated)
            else:
                sources.append(self.operand(operand, code, instruction))
        if len(sources) != len(operation.sources):
            raise unsupported(instruction, "wrong number of operands")
        if operation.carry_in:
            sources.append(self.state.carry)
        if has_slow_path(instruction.opcode, instruction.modifiers):
            before.append(self._note_slow(instruction, *sources))
        if len(operation.result) > 1 or operation.carry_out:
            return [*before, self._assign_several(instruction, operation, pair, sources)]
        target, wider = self.destination(first, operation.result[0], instruction)
        if not wider:
            return [*before, self.assign(instruction, target, operation.function, *sources)]
        narrow = np.zeros(self.state.lanes, DTYPES[operation.result[0]])
        bits = narrow.view(f"u{narrow.dtype.itemsize}") if narrow.dtype.kind == "f" else narrow

        def extended(out: Array) -> None:
            operation.function(narrow, *sources)
            np.copyto(out, bits, casting="unsafe")

        return [*before, self.assign(instruction, target, extended)]

    def _note_slow(self, instruction: Instruction, *operands: Array) -> Op:
        state, guard = self.state, self.guard(instruction)

        def note() -> None:
            if state.counting and not state.slow_division:
                slow = SLOW[instruction.opcode](*(it.view(np.uint32) for it in operands))
                active = state.active if guard is None else guard()
                state.slow_division = bool((slow & (state.alive if active is None else active & state.alive)).any())

        return both(note)

    def _assign_several(
        self, instruction: Instruction, operation: semantics.Operation, targets: Sequence[Operand | None],
        sources: Sequence[Any],
    ) -> Op:  # fmt: skip
        state = self.state
        guard = self.guard(instruction)
        outs = [np.zeros(state.lanes, DTYPES[code]) for code in operation.result]
        kept = [
            (self.destination(target, code, instruction)[0], out)
            for target, code, out in zip(targets, operation.result, outs, strict=False)
            if target is not None
        ]
        if operation.carry_out:
            outs.append(np.zeros(state.lanes, np.bool_))
            kept.append((state.carry, outs[-1]))

        def run() -> None:
            operation.function(*outs, *sources)
            mask = guard() if guard is not None else (None if state.full else state.active)
            for row, out in kept:
                np.copyto(row, out, where=True if mask is None else mask)

        return both(run)

    def operand(self, operand: Operand, code: str, instruction: Instruction) -> Any:
        """Return a source operand. Raise ``UnsupportedKernel`` if its register is narrower than ``code``."""
        if not isinstance(operand, (Register, Immediate, Symbol)):
            raise unsupported(instruction)
        if isinstance(operand, Register) and operand.name in self.state.rows:
            width, _ = self.state.rows[operand.name]
            if isinstance(width, int) and np.dtype(DTYPES[code]).itemsize * 8 > width:
                raise unsupported(instruction, "register narrower than the type")
        value = self.value(operand, code)
        # NumPy combines a zero-dimensional array with a row of lanes in half the time of a scalar.
        return np.asarray(value) if value.ndim == 0 else value

    # -- moves ------------------------------------------------------------------------------------------------------

    def move(self, instruction: Instruction) -> list[Op]:
        """Bind ``mov``, also between a wide register and a vector of narrow ones."""
        target, source = instruction.operands
        code = instruction.modifiers[-1]
        if isinstance(source, Register) and source.name in CLOCKS:
            return [self._clock(instruction, target, source.name, code)]
        if isinstance(source, Register) and source.name in HARDWARE_DEPENDENT:
            self.state.notices.setdefault("guessed", instruction)
        if isinstance(source, Vector):
            return [self._pack(instruction, target, source, code)]
        if isinstance(target, Vector):
            return self._unpack(instruction, target, source, code)
        row, wider = self.destination(target, code, instruction)
        if wider:
            raise unsupported(instruction)
        return [self.assign(instruction, row, _copy, self.value(source, code))]

    def _clock(self, instruction: Instruction, target: Operand, name: str, code: str) -> Op:
        """Bind the read of a clock, whose value is the number of instructions that the batch has executed."""
        state = self.state
        state.notices.setdefault("clock", instruction)
        row, _ = self.destination(target, code, instruction)
        shift, bits = 32 if name.endswith("_hi") else 0, row.dtype.itemsize * 8

        def read(out: Array) -> None:
            out.view(f"u{bits // 8}")[...] = state.ticks() >> shift & (1 << bits) - 1

        return self.assign(instruction, row, read)

    def _pack(self, instruction: Instruction, target: Operand, source: Vector, code: str) -> Op:
        row, _ = self.destination(target, code, instruction)
        count = len(source.elements)
        part = "u" + str(SIZES[code] * 8 // count)
        values = [self.value(element, part) for element in source.elements]

        def make(out: Array) -> None:
            parts = out.view(DTYPES[part]).reshape(-1, count)
            for position, value in enumerate(values):
                parts[:, position] = value

        return self.assign(instruction, row, make)

    def _unpack(self, instruction: Instruction, target: Vector, source: Operand, code: str) -> list[Op]:
        value = self.value(source, code)
        count = len(target.elements)
        part = "u" + str(SIZES[code] * 8 // count)
        if value.ndim == 0:
            value = np.full(self.state.lanes, value)
        parts = value.view(DTYPES[part]).reshape(-1, count)
        result = []
        for position, element in enumerate(target.elements):
            if element is not None:
                row, _ = self.destination(element, part, instruction)
                result.append(self.assign(instruction, row, _copy, parts[:, position]))
        return result

    def convert_address(self, instruction: Instruction) -> list[Op]:
        """Bind ``cvta``: add or remove the window's start of shared and local offsets. Global addresses are generic."""
        target, source = instruction.operands
        modifiers = instruction.modifiers
        if modifiers[-1:] not in (("u32",), ("u64",)):
            raise unsupported(instruction)
        code = "s" + modifiers[-1][1:]
        space = next((m.partition("__")[0] for m in modifiers[:-1] if m != "to"), "")
        if space not in ("global", "const", "shared", "local", "param"):
            raise unsupported(instruction)
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
        row, _ = self.destination(target, code, instruction)
        shift = np.int64(-window if "to" in modifiers else window)
        if space == "param" and (parameters := self.layout.memory.symbols.get(PARAMETERS)) is not None:
            base, value = parameters.base, self.value(source, code)  # the low half identifies the parameter, as in PTX

            def placed(out: Array) -> None:
                out[...] = base + ((value - base) & 0xFFFFFFFF)

            return [self.assign(instruction, row, placed)]
        return [self.assign(instruction, row, _shifted, self.value(source, code), shift)]

    def is_space(self, instruction: Instruction) -> list[Op]:
        """Bind ``isspacep``."""
        row, _ = self.destination(instruction.operands[0], "pred", instruction)
        value = self.value(instruction.operands[1], "s64")
        space = instruction.modifiers[0].partition("__")[0]
        if space not in ("global", "shared", "local"):
            raise unsupported(instruction)
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space)
        if space == "shared" and instruction.modifiers[0] != "shared__cluster" and self.state.cluster > 1:
            own = SHARED_WINDOW + self.state.rank_bits >> RANK_SHIFT
            return [self.assign(instruction, row, lambda out: np.copyto(out, value >> RANK_SHIFT == own))]
        low = LOCAL_WINDOW + WINDOW_SIZE if window is None else window
        high = np.iinfo(np.int64).max if window is None else window + WINDOW_SIZE
        return [self.assign(instruction, row, lambda out: np.copyto(out, (value >= low) & (value < high)))]

    def map_rank(self, instruction: Instruction) -> list[Op]:
        """Bind ``mapa``: the same place in shared memory of the cluster's block of a given rank."""
        code = instruction.modifiers[-1]
        if code not in ("u32", "u64") or not set(instruction.modifiers) <= {"shared__cluster", code}:
            raise unsupported(instruction)
        row, _ = self.destination(instruction.operands[0], code, instruction)
        address, rank = self.value(instruction.operands[1], code), self.value(instruction.operands[2], "u32")
        number = row.dtype.type
        keep, shift = ~number(RANKS << RANK_SHIFT), number(RANK_SHIFT)
        return [
            self.assign(instruction, row, lambda out: np.copyto(out, address & keep | rank.astype(number) << shift))
        ]

    def rank_of(self, instruction: Instruction) -> list[Op]:
        """Bind ``getctarank``: the rank of the block in whose shared memory an address is."""
        code = instruction.modifiers[-1]
        if code not in ("u32", "u64") or not set(instruction.modifiers) <= {"shared__cluster", code}:
            raise unsupported(instruction)
        row, _ = self.destination(instruction.operands[0], "u32", instruction)
        address = self.value(instruction.operands[1], code)
        shift, ranks = np.dtype(DTYPES[code]).type(RANK_SHIFT), np.dtype(DTYPES[code]).type(RANKS)
        return [self.assign(instruction, row, lambda out: np.copyto(out, address >> shift & ranks, "unsafe"))]

    def cache_policy(self, instruction: Instruction) -> list[Op]:
        """Bind ``createpolicy``: the result is ptxas's encoding. A policy has no effect on memory contents."""
        kind, *policies, code = instruction.modifiers
        first, second = [*policies, "L2__evict_unchanged"][:2]
        if kind != "fractional" or len(policies) not in (1, 2) or first not in POLICIES or second not in POLICIES:
            raise unsupported(instruction)
        part = float(self.value(instruction.operands[1], "f32")) if len(instruction.operands) > 1 else 1.0
        policy = 0x10 | POLICIES[first] | (second == "L2__evict_first")
        row, _ = self.destination(instruction.operands[0], code, instruction)
        number = np.uint64(policy << 56 | math.ceil(16 * part) - 1 << 52)
        return [self.assign(instruction, row, _copy, number)]

    def load(self, instruction: Instruction) -> list[Op]:
        """Bind ``ld``. The value of a parameter is known at bind time."""
        computed = any(isinstance(o, Address) and isinstance(o.base, Register) for o in instruction.operands)
        if computed or "param" not in instruction.modifiers:
            return [both(self.memory.load(instruction, self.guard(instruction)))]
        form = form_of(instruction)
        target, address = instruction.operands
        if (
            not isinstance(address, Address)
            or not isinstance(address.base, Symbol)
            or address.base.name not in self.parameters
        ):
            raise unsupported(instruction, "no parameter of the kernel")
        start = self.parameters[address.base.name].offset + address.base.offset + address.offset
        if not 0 <= start <= len(self.parameter_bytes) - form.width:
            raise unsupported(instruction, "outside of the parameters")
        values = np.frombuffer(self.parameter_bytes, DTYPES[form.kind], form.elements, start)
        targets = elements_of(target)
        result = []
        for element, value in zip(targets, values, strict=True):
            if element is not None:
                row, wider = self.destination(element, form.kind, instruction)
                if wider and form.kind[0] not in "bus":
                    raise unsupported(instruction, "register wider than the type")
                result.append(self.assign(instruction, row, _copy, value))
        return result


def _run(bind: Callable[[Binding], Run]) -> Callable[[Binder, Instruction], list[Op]]:
    """Return a binder for instructions whose closure reads the active lanes itself."""

    def bound(binder: Binder, instruction: Instruction) -> list[Op]:
        return [both(bind(Binding(binder.state, binder.memory, instruction, binder.guard(instruction), binder.value)))]

    return bound


# The binder of each row of ``ptx/opcodes.py``, except rows that ``semantics`` computes, rows that end a basic block
# (``machine.py``, ``barriers.py``) and rows without effect.
BINDERS: Mapping[str, Callable[[Binder, Instruction], list[Op]]] = {
    "mov": Binder.move, "cvta": Binder.convert_address, "isspacep": Binder.is_space,
    "createpolicy": Binder.cache_policy, "mapa": Binder.map_rank, "getctarank": Binder.rank_of,
    "st.async": _run(bind_async_store), "red.async": _run(bind_async_store),
    "ldmatrix": _run(bind_matrix_load), "stmatrix": _run(bind_matrix_store), "movmatrix": _run(bind_transpose),
    "ld": Binder.load, "ldu": _run(lambda it: it.memory.load(it.instruction, it.guard)),  # as ld
    "st": _run(lambda it: it.memory.store(it.instruction, it.guard)),
    "atom": _run(bind_atomic), "red": _run(bind_atomic), "cp.async": _run(bind_copy),
    "cp.reduce": _run(bind_reduction), "fence.proxy": _run(bind_proxy_fence),
    "fence.mbarrier_init": _run(bind_async_fence),
    **dict.fromkeys((f"mbarrier.{what}" for what in FORMS), _run(bind_mbarrier)),
    "tex": _run(lambda it: ImageBinder(it).texture()), "tld4": _run(lambda it: ImageBinder(it).gather()),
    "txq": _run(lambda it: ImageBinder(it).query()),
    **dict.fromkeys(("suld", "sust"), _run(lambda it: ImageBinder(it).surface())),
    **dict.fromkeys("shfl.sync vote.sync match redux.sync elect.sync activemask".split(), _run(bind_warp)),
    **dict.fromkeys(
        ("wgmma.mma_async", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"), _run(bind_warpgroup)
    ),
    **dict.fromkeys(("tensormap.replace", "tensormap.cp_fenceproxy"), _run(bind_tensor_map)),
    "mma": _run(lambda it: bind_products(it, (it.instruction,))),
    "bar.warp": Binder.warp_barrier, "call": Binder.call_runtime,
}  # fmt: skip


def _special(values: Any, dtype: np.dtype[Any], name: str) -> Any:
    """Return a special register viewed as ``dtype``. Those that change between batches must stay views."""
    if values.ndim == 0:
        return values.view(dtype) if dtype.itemsize == values.dtype.itemsize else values.astype(dtype)
    if dtype.itemsize > values.dtype.itemsize:
        raise UnsupportedKernel(f"special register {name} is narrower than the type")
    return values.view(dtype)[:: values.dtype.itemsize // dtype.itemsize]


def _copy(out: Array, source: Any) -> None:
    out[...] = source


def _shifted(out: Array, value: Any, shift: np.int64) -> None:
    np.copyto(out, value + shift)


def _increment_version(versions: dict[str, int], name: str) -> None:
    versions[name] += 1


def _float(operand: Immediate, dtype: np.dtype[Any]) -> Any:
    """Return a floating-point constant: its bits, or its value rounded to the width of the instruction that uses it."""
    own = np.dtype(np.float64 if operand.is_double else np.float32)
    value = _from_bits(operand.value, own.itemsize * 8, own.type)
    if dtype.itemsize == own.itemsize:
        return value.view(dtype)
    if dtype.kind != "f" or dtype.itemsize == 2:
        raise UnsupportedKernel(f"floating-point constant of {own.itemsize * 8} bits for {dtype.itemsize * 8} bits")
    return value.astype(dtype)


def _from_bits(value: int, bits: int, dtype: type[np.generic]) -> Any:
    """Return the scalar of ``dtype`` whose bit pattern is the low ``bits`` of ``value``."""
    if dtype is np.bool_:
        return np.bool_(value)
    unsigned = np.dtype(f"u{bits // 8}").type(value & ((1 << bits) - 1))
    return unsigned.view(dtype)


def address_registers(blocks: Sequence[Block]) -> set[str]:
    """Return the base registers of addresses that may be memoised: of shared and local memory, matrices and copies."""
    return {
        operand.base.name
        for block in blocks
        for instruction in block.instructions
        for operand in instruction.operands
        if isinstance(operand, Address) and isinstance(operand.base, Register) and _is_memoised(instruction)
    }


def _is_memoised(instruction: Instruction) -> bool:
    row = instruction.row
    return is_shared_or_local(instruction) or bool(row.lanes) or row.effect not in ("load", "store", "atomic")
