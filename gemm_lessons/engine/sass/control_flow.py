"""Where the last instruction of a basic block sends those who execute it: branches, calls, exits, and the barriers at
which the lanes of a warp converge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.sass.divergence import Front, Fronts
from gemm_lessons.engine.sass.flow import calls, calls_outside, results
from gemm_lessons.engine.sass.lanes import Lanes
from gemm_lessons.engine.sass.operand_fetch import TRUE, Array, Fetch
from gemm_lessons.engine.sass.operands import Decoded, MachineImmediate, MachineRegister
from gemm_lessons.engine.sass.planning import Plan
from gemm_lessons.engine.sass.uncountable import Uncountable

EVERYONE = np.array([0xFFFFFFFF], np.uint32)
MODIFIERS = {
    "BRA": frozenset(("U", "DIV", "CONV", "ANY")),
    "CALL": frozenset(("REL", "ABS", "NOINC")),
    "RET": frozenset(("REL", "NODEC")),
    "BMOV": frozenset(("32", "CLEAR")),  # before Ampere: nobody is expected at a barrier any more
    **dict.fromkeys(("BRX", "EXIT", "BSSY", "BSYNC", "BREAK", "KILL"), frozenset[str]()),
}

Move = Callable[[Front], Front | None]  # of a front behind its block: the front that goes on at once, or None


class Moves:
    """``number`` has the basic blocks by the index of their first instruction; a lane ``parks`` at BAR until the others
    of its block are there, where memory is followed."""

    def __init__(self, plan: Plan, lanes: Lanes, fronts: Fronts, number: Mapping[int, int], parks: bool) -> None:
        self._program, self._paired = plan.program, plan.paired
        self._lanes, self._fronts = lanes, fronts
        self._number, self._parks = number, parks
        self._count = lanes.geometry.lanes
        self._returns = np.full(self._count, -1, np.int32)  # the block behind each lane's last call

    def move(self, d: Decoded, after: int) -> Move:
        """What ``d`` does, the last instruction of the basic block before ``after``."""
        if calls_outside(d):
            return self._outside(d, after)
        self._check(d)
        make = TABLE.get(d.name)
        return make(self, d, after) if make is not None else _on(after)

    def _check(self, d: Decoded) -> None:
        """Raises ``Uncountable`` for a modifier or a condition that is not followed below."""
        known = MODIFIERS.get(d.name)
        if known is None:
            return
        conditions = self._conditions(d)
        unlikely = conditions and d.name not in ("BRA", "BREAK", "EXIT")
        if not known.issuperset(d.modifiers) or unlikely or len(conditions) > 1:
            raise Uncountable(f"unknown form {d.text}")

    @staticmethod
    def _conditions(d: Decoded) -> list[MachineRegister]:
        return [o for o in d.operands if isinstance(o, MachineRegister) and o.is_predicate]

    def _truth(self, d: Decoded) -> Fetch:
        """The guard of ``d``."""
        return self._lanes.guard(d) or (lambda: TRUE)

    def _chosen(self, d: Decoded) -> Fetch:
        """The guard of ``d``, and its condition if it has one."""
        truth = self._truth(d)
        also = [self._lanes.fetcher(condition) for condition in self._conditions(d)]
        return (lambda: truth() & also[0]()) if also else truth

    def _outside(self, d: Decoded, after: int) -> Move:
        fronts, truth = self._fronts, self._truth(d)

        def call(front: Front) -> Front:
            if bool(np.any(fronts.mask_of(front) & truth())):
                raise Uncountable(f"the kernel calls a function of the system: {d.text}")
            front.block = after
            return front

        return call

    # -- branches -----------------------------------------------------------------------------------------------------

    def _branch(self, d: Decoded, after: int) -> Move:
        fronts, truth = self._fronts, self._truth(d)
        target = self._number[self._program.target(d)]
        if d.has("DIV", "CONV"):
            return lambda front: fronts.split(front, self._diverged(front), target, after)
        if d.has("ANY"):
            return lambda front: fronts.split(front, self._any(front, truth), target, after)
        extra = [self._lanes.fetcher(o) for o in d.operands if isinstance(o, MachineRegister)]
        if not extra:
            return lambda front: fronts.split(front, truth(), target, after)
        return lambda front: fronts.split(front, truth() & extra[0](), target, after)

    def _diverged(self, front: Front) -> Array:
        """Lanes whose warp is not together."""
        mask = self._fronts.mask_of(front).reshape(-1, WARP)
        whole = (mask == self._fronts.alive.reshape(-1, WARP)).all(axis=1)
        return np.repeat(~whole, WARP)

    def _any(self, front: Front, truth: Fetch) -> Array:
        """Lanes in whose warp ``truth`` holds for some lane of the front."""
        here = (self._fronts.mask_of(front) & truth()).reshape(-1, WARP)
        return np.repeat(here.any(axis=1), WARP)

    def _jump(self, d: Decoded, after: int) -> Move:
        """BRX R10 -0x240: to as many bytes behind the next instruction as the register and the number say."""
        register, *rest = d.operands
        behind = d.index + 1
        if d.guard is not None or len(rest) != 1 or not isinstance(rest[0], MachineImmediate):
            raise Uncountable(f"unknown form {d.text}")
        place = self._lanes.fetcher(register)
        code = self._program.code
        base = code[d.index].source.address + (code[behind].source.address - code[behind - 1].source.address)
        distance = np.int64(np.uint32(rest[0].bits).view(np.int32)) + base
        index = {code[at].source.address: self._number[at] for at in set(self._program.labels.values())}

        def jump(front: Front) -> Front | None:
            places = np.broadcast_to(place().view(np.int32) + distance, (self._count,))
            mask = self._fronts.mask_of(front)
            for goal in np.unique(places[mask]):
                if int(goal) not in index:
                    raise Uncountable(f"{d.text} leads to {int(goal):#x}")
                self._fronts.add(self._fronts.front(index[int(goal)], mask & (places == goal)))
            return None

        return jump

    def _exit(self, d: Decoded, after: int) -> Move:
        fronts, truth = self._fronts, self._truth(d)
        both = [self._lanes.fetcher(o) for o in d.operands if isinstance(o, MachineRegister)]
        return lambda front: fronts.leave(front, truth() & both[0]() if both else truth(), after)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _call(self, d: Decoded, after: int) -> Move:
        if not self._paired:
            return self._branch(d, after)
        fronts, truth = self._fronts, self._truth(d)
        target = self._number[self._program.target(d)]

        def enter(front: Front) -> Front | None:
            self._returns[fronts.mask_of(front) & truth()] = after
            return fronts.split(front, truth(), target, after)

        return enter

    def _return(self, d: Decoded, after: int) -> Move:
        if d.guard is not None:
            raise Uncountable(f"unknown form {d.text}")
        register = d.operands[0]
        back = self._lanes.fetcher(register)
        code = self._program.code
        behind = [c.index + 1 for c in calls(self._program)]
        index = {code[i].source.address: self._number[i] for i in behind}

        def go_back(front: Front) -> Front | None:
            places = np.broadcast_to(back(), (self._count,))
            mask = self._fronts.mask_of(front)
            for place in np.unique(places[mask]):
                if int(place) not in index:
                    raise Uncountable(f"return to {int(place):#x}")
                lanes = mask & (places == place)
                if self._paired and (self._returns[lanes] != index[int(place)]).any():
                    raise Uncountable(f"return to {int(place):#x}, which is not behind the call")
                self._fronts.add(self._fronts.front(index[int(place)], lanes))
            return None

        return go_back

    # -- barriers -----------------------------------------------------------------------------------------------------

    def _meet_later(self, d: Decoded, after: int) -> Move:
        fronts, barrier = self._fronts, _barrier(d)

        def begin(front: Front) -> Front:
            fronts.meet_later(front, barrier)
            front.block = after
            return front

        return begin

    def _meet(self, d: Decoded, after: int) -> Move:
        fronts, barrier = self._fronts, _barrier(d)
        if d.guard is not None:
            raise Uncountable(f"unknown form {d.text}")
        return lambda front: fronts.meet(front, barrier, after)

    def _clear(self, d: Decoded, after: int) -> Move:
        if not d.has("CLEAR") or d.guard is not None or results(d)[0]:
            raise Uncountable(f"unknown form {d.text}")
        return self._forget(d, after)

    def _forget(self, d: Decoded, after: int) -> Move:
        fronts, barrier, chosen = self._fronts, _barrier(d), self._chosen(d)

        def leave(front: Front) -> Front:
            fronts.forget(fronts.mask_of(front) & chosen(), barrier)
            front.block = after
            return front

        return leave

    def _sync(self, d: Decoded, after: int) -> Move:
        fronts, members, exclusive = self._fronts, self._members(d), d.has("EXCLUSIVE")
        return lambda front: fronts.sync(front, members(), exclusive, after)

    def _members(self, d: Decoded) -> Fetch:
        """The masks of WARPSYNC."""
        if d.guard is not None:
            raise Uncountable(f"unknown form {d.text}")
        if d.has("ALL"):
            return lambda: EVERYONE
        mask = next((o for o in d.operands if isinstance(o, (MachineRegister, MachineImmediate))), None)
        if mask is None:
            raise Uncountable(f"unknown form {d.text}")
        return self._lanes.fetcher(mask)

    def _park(self, d: Decoded, after: int) -> Move:
        if not self._parks or d.has("ARV"):
            return _on(after)

        def park(front: Front) -> None:
            self._fronts.park(front, after)

        return park


def _on(after: int) -> Move:
    def go_on(front: Front) -> Front:
        front.block = after
        return front

    return go_on


def _barrier(d: Decoded) -> str:
    for operand in d.operands:
        if isinstance(operand, MachineRegister) and operand.file == "B":
            return operand.shifted(0)
    raise Uncountable(f"unknown form {d.text}")


TABLE: Mapping[str, Callable[[Moves, Decoded, int], Move]] = {
    "BRA": Moves._branch,
    "BRX": Moves._jump,
    "CALL": Moves._call,
    "RET": Moves._return,
    "EXIT": Moves._exit,
    "KILL": Moves._exit,
    "BSSY": Moves._meet_later,
    "BSYNC": Moves._meet,
    "BMOV": Moves._clear,
    "BREAK": Moves._forget,
    "WARPSYNC": Moves._sync,
    "BAR": Moves._park,
}
