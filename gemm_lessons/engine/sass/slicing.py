"""Program slice: the instructions that addresses and control flow depend on.

Counting memory accesses needs addresses, predicates and branches, hardly ever the numbers that are multiplied. An
instruction outside of the slice need not be executed, and its semantics need not be known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush

from gemm_lessons.engine.sass.flow import Listing, call_by_call, mask, reads, results
from gemm_lessons.engine.sass.operands import Decoded, MachineImmediate, MachineRegister

Value = tuple[str, int, str]  # value of a predicate: WRITTEN or MET (paths join), the node, the predicate's name
# Values: of predicates, and of registers that hold one, by name; of comparisons by their operands.
Values = Mapping[str, Value]
Condition = tuple[Value, bool]  # condition of a need: a predicate's value, and whether it is negated
Needs = dict["Condition | None", int]  # registers needed, as bits, by condition; None: always
WRITTEN, MET, FIRST = "written", "met", "first"  # FIRST: never written


class Slicer:
    """Finds slices of a program: liveness with conditions, because ptxas turns branches into predicates.

    A register needed under ``@P0`` is supplied by an earlier write under the same value of P0, or of another predicate
    with this value. ``closely``: the precise slice, in which branches are conditions, too, and after a write under
    ``@P0`` the other threads still need the register.
    """

    def __init__(self, program: Listing, closely: bool = True) -> None:
        self._code, self._closely = program.code, closely
        self._bits: dict[str, int] = {}
        self._inputs: dict[int, int] = {}
        code = program.code
        self._written_by = [results(d)[0] for d in code]
        paths = call_by_call(program)
        self._origin, self._after = paths or (list(range(len(code))), list(program.after))
        origin = self._origin
        self._sources: list[list[int]] = [[] for _ in self._after]
        for node, successors in enumerate(self._after):
            for successor in successors:
                self._sources[successor].append(node)
        before, values_after = _values(code, self._written_by, origin, self._after)
        self._guards = [_guard(code[index], values) for index, values in zip(origin, before, strict=True)]
        self._branch_conditions = [
            guard if closely and _follows_guard(code[index]) else None
            for index, guard in zip(origin, self._guards, strict=True)
        ]
        self._arriving = _arriving(before, values_after, self._after)
        self._elected = [
            _is_elected(code, origin, index, guard) for index, guard in zip(origin, self._guards, strict=True)
        ]
        self._guard_bits = [self._mask([d.guard.shifted(0)]) if d.guard else 0 for d in code]
        self._writes = [
            0 if d.guard is not None and d.guard.number is None and d.guard.negated else self._mask(names)
            for d, names in zip(code, self._written_by, strict=True)
        ]

    def _mask(self, names: Sequence[str]) -> int:
        return mask(self._bits, names)

    def relevant(self, roots: Callable[[Decoded], Sequence[str]]) -> list[bool]:
        """Return the backward slice of the ``roots`` (registers that an instruction needs itself)."""
        code, origin, after, guards, elected = self._code, self._origin, self._after, self._guards, self._elected
        inputs, closely = self._inputs, self._closely
        needs = [self._mask(roots(d)) for d in code]
        live: list[Needs] = [{} for _ in origin]  # before each instruction; shared, and never changed in place
        chosen = [False] * len(code)
        todo = bytearray(b"\1" * len(origin))  # nodes to visit, and again when the needs after them have changed
        while any(todo):
            for node in range(len(origin) - 1, -1, -1):
                if not todo[node]:
                    continue
                todo[node] = 0
                index = origin[node]
                state = _needs_after(node, after[node], live, self._arriving, self._branch_conditions[node])
                guard, written, wanted = guards[node], self._writes[index], needs[index]
                if written:
                    opposite = guard and (guard[0], not guard[1])
                    reaching = 0
                    for condition, then in state.items():
                        if condition != opposite or guard is None:
                            reaching |= then
                    if reaching & written:
                        chosen[index] = True
                        if index not in inputs:
                            inputs[index] = self._mask(reads(code[index]))
                        wanted |= inputs[index]
                        settled = state if guard is None or elected[node] else {guard}
                        state = {c: then & ~written if c in settled else then for c, then in state.items()}
                        others = state.get(None, 0) & written
                        # A thread that has not written the register still needs it.
                        if closely and opposite and others and not elected[node]:
                            state[None] &= ~written
                            state[opposite] = state.get(opposite, 0) | others
                if state:
                    for name in self._written_by[index]:  # the value does not exist before its write
                        for condition in (((WRITTEN, node, name), False), ((WRITTEN, node, name), True)):
                            if condition in state:
                                state = {**state, None: state.get(None, 0) | state[condition]}
                                del state[condition]
                if wanted:
                    state = {**state, guard: state.get(guard, 0) | wanted & ~self._guard_bits[index]}
                    if guard:
                        state[None] = state.get(None, 0) | wanted & self._guard_bits[index]
                if state is not live[node] and state != live[node]:
                    live[node] = state
                    for earlier in self._sources[node]:
                        todo[earlier] = 1
        return chosen


def _needs_after(
    node: int,
    successors: Sequence[int],
    live: Sequence[Needs],
    arriving: Mapping[tuple[int, int], Mapping[Value, Value | None]],
    branch_condition: Condition | None,
) -> Needs:
    """Return the needs after an instruction, joined over all its successors.

    ``branch_condition``: the condition of a branch. It holds on the taken path and not on the other, so each path's
    needs get their condition.
    """
    if len(successors) == 1 and (node, successors[0]) not in arriving:
        return live[successors[0]]
    state: Needs = {}
    for number, successor in enumerate(successors):
        renamed = arriving.get((node, successor), {})
        on_path = branch_condition and (branch_condition[0], branch_condition[1] != (number > 0))
        for condition, wanted in live[successor].items():
            if condition and condition[0] in renamed:
                value = renamed[condition[0]]
                condition = (value, condition[1]) if value else None
            if on_path and condition == (on_path[0], not on_path[1]):
                continue
            condition = condition or on_path
            state[condition] = state.get(condition, 0) | wanted
    return state


def _guard(d: Decoded, values: Values) -> Condition | None:
    if d.guard is None or d.guard.number is None:
        return None
    name = d.guard.shifted(0)
    return values.get(name, (FIRST, 0, name)), d.guard.negated


def _is_elected(code: Sequence[Decoded], origin: Sequence[int], index: int, guard: Condition | None) -> bool:
    """Return whether one elected lane of each warp writes a uniform register, so that no lane needs the old value."""
    if guard is None or guard[1] or guard[0][0] != WRITTEN or code[index].name != "R2UR":
        return False
    return code[origin[guard[0][1]]].name == "ELECT"


def _follows_guard(d: Decoded) -> bool:
    """Return whether the guard alone decides the branch, so that each thread follows its own predicate."""
    return d.name == "BRA" and not d.modifiers and not any(isinstance(it, MachineRegister) for it in d.operands)


def _values(
    code: Sequence[Decoded], written_by: Sequence[Sequence[str]], origin: Sequence[int], after: Sequence[Sequence[int]]
) -> tuple[list[Values], list[Values]]:
    """Return the values of predicates before and after each instruction.

    A write makes a new value, and so does a join of paths with different values. If ptxas runs out of predicates, it
    keeps one in a register and restores it, or repeats the comparison of the same registers: the value is the same.
    """
    kept = [_kept(d) for d in code]
    taken = [_taken(d) for d in code]
    compared = [_compared(d) for d in code]
    lost: dict[str, set[str]] = {}  # a write of this register invalidates these comparisons
    for d, comparison in zip(code, compared, strict=True):
        for name in reads(d) if comparison else ():
            lost.setdefault(name, set()).add(comparison)
    before: list[Values | None] = [None] * len(origin)
    values_after: list[Values] = [{}] * len(origin)
    if origin:
        before[0] = {}
    work = [0] if origin else []
    while work:  # in the order of the code: a join waits for all paths to it, loops excepted
        node = heappop(work)
        values = before[node]
        assert values is not None
        index = origin[node]
        changes: dict[str, Value | None] = {}
        for name in written_by[index]:
            if name.startswith(("P", "UP")):
                changes[name] = (WRITTEN, node, name)
            elif name in values:
                changes[name] = None
            for comparison in lost.get(name, ()):
                if comparison in values:
                    changes[comparison] = None
        if kept_here := kept[index]:
            register, predicate = kept_here
            changes[register] = values.get(predicate, (FIRST, 0, predicate))
        if taken_here := taken[index]:
            predicate, register = taken_here
            if register in values:
                changes[predicate] = values[register]
        if comparison := compared[index]:
            result = code[index].operands[0]
            assert isinstance(result, MachineRegister)
            same = changes[result.shifted(0)] = values.get(comparison) or changes[result.shifted(0)]
            changes[comparison] = None if comparison in lost.get(result.shifted(0), ()) else same
        out = values
        if changes:
            out = dict(values)
            for name, value in changes.items():
                if value:
                    out[name] = value
                else:
                    out.pop(name, None)
        values_after[node] = out
        for successor in after[node]:
            known = before[successor]
            if known is None:
                before[successor] = out
                heappush(work, successor)
            elif known is not out:
                met = {name: (MET, successor, name) for name in {*known, *out} if known.get(name) != out.get(name)}
                if any(known.get(name) != value for name, value in met.items()):
                    before[successor] = {**known, **met}
                    heappush(work, successor)
    return [values or {} for values in before], values_after


def _arriving(
    before: Sequence[Values], values_after: Sequence[Values], after: Sequence[Sequence[int]]
) -> dict[tuple[int, int], dict[Value, Value | None]]:
    """Return, at joins, the old value of each new one, by the incoming edge. None: unknown."""
    result = {}
    for node, successors in enumerate(after):
        for successor in successors:
            own = {
                value: values_after[node].get(name)
                for name, value in before[successor].items()
                if value[:2] == (MET, successor)
            }
            if own:
                result[node, successor] = own
    return result


def _kept(d: Decoded) -> tuple[str, str] | None:
    """``P2R R33, PR, RZ, 0x20``: the register and the one predicate that it keeps."""
    if d.name != "P2R" or d.guard is not None or len(d.operands) != 4 or d.modifiers:
        return None
    register, _, rest, which = d.operands
    alone = isinstance(rest, MachineRegister) and rest.number is None and isinstance(which, MachineImmediate)
    if not alone or not isinstance(register, MachineRegister) or register.number is None:
        return None
    assert isinstance(which, MachineImmediate)
    places = [i for i in range(7) if which.bits == 1 << i]
    return (register.shifted(0), f"P{places[0]}") if places else None


def _taken(d: Decoded) -> tuple[str, str] | None:
    """``ISETP.NE.AND P2, PT, R33, RZ, PT``: the predicate that tests whether a register is zero, and the register."""
    if d.name != "ISETP" or d.guard is not None or d.modifiers not in (("NE", "AND"), ("NE", "U32", "AND")):
        return None
    if not all(isinstance(o, MachineRegister) and not (o.negated or o.inverted or o.absolute) for o in d.operands):
        return None
    names = [o.shifted(0) for o in d.operands if isinstance(o, MachineRegister)]
    if len(names) != 5 or not names[0] or not names[2] or any((names[1], names[3], names[4])):
        return None
    return names[0], names[2]


def _compared(d: Decoded) -> str:
    """``GE AND R126 UR6 PT``: the operation and operands of an integer comparison with one result."""
    if d.name != "ISETP" or d.guard is not None or len(d.operands) < 3:
        return ""
    first, second = d.operands[:2]
    if not (isinstance(first, MachineRegister) and first.number is not None):
        return ""
    if not (isinstance(second, MachineRegister) and second.number is None):
        return ""
    return f"{d.modifiers} {d.operands[2:]}"
