"""Finds in the code which array an address was computed from: a shared array, a local array, or a parameter's.

An address alone cannot show that As[1024] of a 1024-element As is an error: it is an element of Bs. But the code names
As, then adds to it. The code also shows, before a launch, which parameters' arrays no store can reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from gemm_lessons.engine.ptx.cfg import writes
from gemm_lessons.engine.ptx.records import Address, Immediate, Instruction, Kernel, Operand, Register, Symbol, Vector
from gemm_lessons.engine.records.launch import TENSOR_MAP_SIZE

UNKNOWN = "?"  # an address whose array cannot be derived


def provenance(kernel: Kernel, shared: frozenset[str]) -> dict[int, str]:
    """Return memory instruction -> the shared array that its address is computed from, where it is exactly one."""
    return _sources(kernel, shared, {}) if shared else {}


def local_provenance(
    kernel: Kernel, placed: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, tuple[int, int]], dict[int, str]]:
    """Return a thread's own arrays, (offset, bytes) by a generated name, and the array of each memory instruction.
    ``placed`` has the offset and bytes of each variable that holds them.

    NVRTC puts all of a function's arrays into one variable. It computes the start of each by adding its offset to the
    variable's address in a separate instruction, and adds everything else to that start afterwards. So an array
    ends where the next one starts, padding included.
    """
    whole: dict[str, str] = {}  # registers that hold the variable's own address -> the variable
    counts = Counter(name for i in kernel.instructions for name in writes(i))
    starts: dict[str, tuple[str, int]] = {}
    for instruction in kernel.instructions:
        if len(instruction.operands) < 2 or instruction.guard is not None:
            continue
        target, source, *more = instruction.operands
        if not isinstance(target, Register) or counts[target.name] != 1:
            continue
        pointer = instruction.row.pointer
        if pointer == "kept" and isinstance(source, Symbol) and source.name in placed and not source.offset:
            whole[target.name] = source.name
        elif pointer == "converted" and isinstance(source, Register) and source.name in whole:
            whole[target.name] = whole[source.name]
        elif pointer == "added" and isinstance(source, Register) and source.name in whole:
            offset = more[0]
            if isinstance(offset, Immediate):
                starts[target.name] = whole[source.name], offset.value
    arrays: dict[str, tuple[int, int]] = {}
    for variable, (place, size) in placed.items():
        inside = sorted({start for name, start in starts.values() if name == variable and 0 <= start < size})
        for start, end in pairwise([*inside, size]):
            arrays[f"{variable}+{start}"] = place + start, end - start
    made = {register: f"{variable}+{start}" for register, (variable, start) in starts.items()}
    unknown = dict.fromkeys(whole, UNKNOWN)  # may be the address of any array
    return arrays, _sources(kernel, frozenset(), unknown | made) if made else {}


def _sources(kernel: Kernel, named: frozenset[str], starts: Mapping[str, str]) -> dict[int, str]:
    """Return memory instruction -> the one array that its address is computed from: an array that is ``named``, or one
    whose start is in a register of ``starts``.

    A register of ``starts`` has a single definition.
    """
    bases: dict[int, Operand] = {}
    for instruction in kernel.instructions:
        if {"shared__cluster", "shared__cta"} <= set(instruction.modifiers):
            continue  # both sides are in shared memory
        for operand in instruction.operands:
            if isinstance(operand, Address) and operand.base is not None:
                bases[instruction.index] = operand.base
                break  # the first address, which is the shared side of cp.async
    made = {register: {array} for register, array in starts.items()}
    of = _flow(kernel, named, made, frozenset(starts), bases.values())
    found = {index: of(base) for index, base in bases.items()}
    return {index: next(iter(names)) for index, names in found.items() if len(names) == 1 and UNKNOWN not in names}


def stored_parameters(kernel: Kernel) -> frozenset[str] | None:
    """Return the parameters through whose pointers the kernel may store to global memory; None if unknown.

    A pointer that was loaded from memory is unknown, and so is a tensor map that is not itself a parameter.
    """
    names = {parameter.name for parameter in kernel.parameters}
    maps = {parameter.name for parameter in kernel.parameters if parameter.size == TENSOR_MAP_SIZE}
    starts: dict[str, set[str]] = {}
    for instruction in kernel.instructions:
        if instruction.row.effect in ("load", "atomic"):
            for name in writes(instruction):
                starts.setdefault(name, set()).update(_loaded(instruction, names))
        elif Vector in map(type, instruction.operands):
            for name in writes(instruction):  # two halves may make an address
                starts.setdefault(name, set()).add(UNKNOWN)
    targets: list[tuple[Operand | None, bool]] = []  # what is stored to, and whether only a tensor map can be
    for instruction in kernel.instructions:
        effect = instruction.row.effect
        if effect == "compute":
            continue
        spaces = {modifier.partition("__")[0] for modifier in instruction.modifiers}
        address = next((operand for operand in instruction.operands if isinstance(operand, Address)), None)
        if effect in ("image", "unknown") or (effect == "group" and address is not None):  # or a tensor map is changed
            return None
        if effect in ("store", "atomic") and spaces.isdisjoint(("shared", "local", "param")):
            targets.append((address and address.base, False))
        elif effect == "copy" and spaces & {"bulk", "reduce"} and _target_space(instruction) == "global":
            first = instruction.operands[0]
            if isinstance(first, Vector):  # a box of a tensor map
                targets.append((first.elements[0], True))
            else:
                targets.append((first.base if isinstance(first, Address) else None, False))
    of = _flow(kernel, frozenset(names), starts, frozenset(), [target for target, _ in targets])
    found: set[str] = set()
    for target, is_map in targets:
        reached = of(target)
        if not reached or UNKNOWN in reached or (is_map and not reached <= maps):
            return None
        found |= reached
    return frozenset(found)


def _target_space(instruction: Instruction) -> str:
    """Return the state space into which a bulk copy copies, the first that it names, or "" if it names none."""
    spaces = (modifier.partition("__")[0] for modifier in instruction.modifiers)
    return next((it for it in spaces if it in ("global", "shared")), "")


def _loaded(instruction: Instruction, parameters: set[str]) -> set[str]:
    """Return the parameter whose pointer a load may give, or ``UNKNOWN``; nothing if the load is too narrow."""
    if not instruction.modifiers or not instruction.modifiers[-1].endswith(("64", "128")):
        return set()
    address = next((operand for operand in instruction.operands if isinstance(operand, Address)), None)
    base = None if address is None else address.base
    named = isinstance(base, Symbol) and base.name in parameters and "param" in instruction.modifiers
    return {base.name} if named and isinstance(base, Symbol) else {UNKNOWN}


def _flow(
    kernel: Kernel,
    named: frozenset[str],
    starts: Mapping[str, set[str]],
    fixed: frozenset[str],
    wanted: Iterable[Operand | None],
) -> Callable[[Operand | None], set[str]]:
    """Return a function from one of the ``wanted`` operands to the arrays in which it may be an address.

    This is a forward data-flow analysis that merges all definitions of a register. It begins with ``starts``, and does
    not follow definitions of ``fixed`` registers. Sums and moves keep the array; any other operation on an address
    makes it unknown. Only instructions on which ``wanted`` operands depend are followed.
    """
    made = {register: set(arrays) for register, arrays in starts.items()}

    def of(operand: Operand | None) -> set[str]:
        if isinstance(operand, Symbol):
            return {operand.name} if operand.name in named else set()
        return made.get(operand.name, set()) if isinstance(operand, Register) else set()

    makers: dict[str, list[Instruction]] = {}
    for instruction in kernel.instructions:
        made_here = instruction.operands[0] if instruction.operands else None
        if isinstance(made_here, Register) and made_here.name not in fixed and _keeps_address(instruction):
            makers.setdefault(made_here.name, []).append(instruction)
    work: list[Instruction] = []
    users: dict[str, list[Instruction]] = {}
    needed = {operand.name for operand in wanted if isinstance(operand, Register)}
    waiting = [*needed]
    while waiting:
        for instruction in makers.get(waiting.pop(), ()):
            for operand in instruction.operands[1:]:
                if isinstance(operand, Register):
                    users.setdefault(operand.name, []).append(instruction)
                    if operand.name not in needed:
                        needed.add(operand.name)
                        waiting.append(operand.name)
                elif isinstance(operand, Symbol) and operand.name in named:
                    work.append(instruction)
    work += (instruction for register, arrays in starts.items() if arrays for instruction in users.get(register, ()))
    while work:
        instruction = work.pop()
        target = instruction.operands[0]
        assert isinstance(target, Register)
        before = made.setdefault(target.name, set())
        result = _result(instruction, of)
        if not result <= before:
            before |= result
            work += users.get(target.name, ())
    return of


def _keeps_address(instruction: Instruction) -> bool:
    """Return whether the result may be an address computed from the operands."""
    return instruction.row.effect not in ("load", "atomic") and instruction.row.pointer != "none"


def _result(instruction: Instruction, of: Callable[[Operand | None], set[str]]) -> set[str]:
    sources = [of(operand) for operand in instruction.operands[1:]]
    row = instruction.row
    if not any(sources):
        return set()
    if row.pointer in ("kept", "converted", "added", "joined"):
        return set().union(*sources)
    if row.pointer == "chosen":
        return set().union(*sources[:2])
    if row.pointer == "subtracted":
        return sources[0] | ({UNKNOWN} if sources[1] else set())
    if row.pointer == "last":
        return sources[2] | ({UNKNOWN} if sources[0] or sources[1] else set())
    return {UNKNOWN} if any(sources) else set()
