"""Control transfer at the end of a basic block: branches, calls, exits, and the barriers at which the lanes of a warp
reconverge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.divergence import LaneGroup, LaneGroups
from gemm_lessons.engine.sass.flow import calls_outside, results
from gemm_lessons.engine.sass.lanes import Lanes
from gemm_lessons.engine.sass.operand_fetch import TRUE, Fetch
from gemm_lessons.engine.sass.operands import Decoded, MachineImmediate, MachineRegister, Uncountable, unknown_form
from gemm_lessons.engine.sass.planning import Plan

EVERYONE = np.array([0xFFFFFFFF], np.uint32)
MODIFIERS = {
    "BRA": frozenset(("U", "DIV", "CONV", "ANY")),
    "CALL": frozenset(("REL", "ABS", "NOINC")),
    "RET": frozenset(("REL", "NODEC")),
    "BPT": frozenset(("TRAP",)),
    "BMOV": frozenset(("32", "CLEAR")),  # before Ampere: clears a convergence barrier
    **dict.fromkeys(("BRX", "EXIT", "KILL"), frozenset[str]()),
    **dict.fromkeys(("BSSY", "BSYNC", "BREAK"), frozenset(("RECONVERGENT", "RELIABLE"))),  # since 10.0
}

# The group at the end of its block -> the group that continues at once, or None.
Transfer = Callable[[LaneGroup], LaneGroup | None]


class ControlFlow:
    """Builds the control transfers of a plan.

    ``number``: basic block by the index of its first instruction. With ``parks``, a lane waits at BAR for the others of
    its block; this is needed where memory contents are followed.
    """

    def __init__(
        self, plan: Plan, lanes: Lanes, lane_groups: LaneGroups, number: Mapping[int, int], parks: bool
    ) -> None:
        self._program, self._paired = plan.program, plan.paired
        self._lanes, self._lane_groups = lanes, lane_groups
        self._number, self._parks = number, parks
        self._count = lanes.geometry.lanes
        self._returns = np.full(self._count, -1, np.int32)  # the block after each lane's last call

    def move(self, d: Decoded, after: int) -> Transfer:
        """Return the effect of ``d``, the last instruction of the basic block before ``after``."""
        if calls_outside(d):
            return self._unfollowable(d, after, "the kernel calls a function of the system")
        self._check(d)
        make = TABLE.get(d.name)
        return make(self, d, after) if make is not None else _continue_at(after)

    def _check(self, d: Decoded) -> None:
        """Raise ``Uncountable`` for a modifier or a condition that is not supported below."""
        known = MODIFIERS.get(d.name)
        if known is None:
            return
        conditions = self._conditions(d)
        unlikely = conditions and d.name not in ("BRA", "BREAK", "EXIT")
        if not known.issuperset(d.modifiers) or unlikely or len(conditions) > 1:
            raise unknown_form(d)

    @staticmethod
    def _conditions(d: Decoded) -> list[MachineRegister]:
        return [o for o in d.operands if isinstance(o, MachineRegister) and o.is_predicate]

    def _truth(self, d: Decoded) -> Fetch:
        """Fetch the guard of ``d``."""
        return self._lanes.guard(d) or (lambda: TRUE)

    def _chosen(self, d: Decoded) -> Fetch:
        """Fetch the guard of ``d`` and its condition, if it has one."""
        truth = self._truth(d)
        also = [self._lanes.fetcher(condition) for condition in self._conditions(d)]
        return (lambda: truth() & also[0]()) if also else truth

    def _unfollowable(self, d: Decoded, after: int, why: str) -> Transfer:
        """Return the effect of an instruction that cannot be followed: raise ``Uncountable`` if a lane executes it."""
        lane_groups, truth = self._lane_groups, self._truth(d)

        def pass_by(lane_group: LaneGroup) -> LaneGroup:
            if bool(np.any(lane_groups.mask_of(lane_group) & truth())):
                raise Uncountable(f"{why}: {d.text}")
            lane_group.block = after
            return lane_group

        return pass_by

    # -- branches -----------------------------------------------------------------------------------------------------

    def _branch(self, d: Decoded, after: int) -> Transfer:
        lane_groups, truth = self._lane_groups, self._truth(d)
        target = self._number[self._program.target(d)]
        if d.has("DIV", "CONV"):
            return lambda lane_group: lane_groups.split(lane_group, self._diverged(lane_group), target, after)
        if d.has("ANY"):
            return lambda lane_group: lane_groups.split(lane_group, self._any(lane_group, truth), target, after)
        extra = [self._lanes.fetcher(o) for o in d.operands if isinstance(o, MachineRegister)]
        if not extra:
            return lambda lane_group: lane_groups.split(lane_group, truth(), target, after)
        return lambda lane_group: lane_groups.split(lane_group, truth() & extra[0](), target, after)

    def _diverged(self, lane_group: LaneGroup) -> Array:
        """Return the lanes of warps that have diverged."""
        mask = self._lane_groups.mask_of(lane_group).reshape(-1, WARP)
        whole = (mask == self._lane_groups.alive.reshape(-1, WARP)).all(axis=1)
        return np.repeat(~whole, WARP)

    def _any(self, lane_group: LaneGroup, truth: Fetch) -> Array:
        """Return the lanes of the warps in which ``truth`` holds for any lane of the group."""
        here = (self._lane_groups.mask_of(lane_group) & truth()).reshape(-1, WARP)
        return np.repeat(here.any(axis=1), WARP)

    def _jump(self, d: Decoded, after: int) -> Transfer:
        """BRX R10 -0x240: jump relative to the next instruction by the sum of the register and the number, in bytes."""
        register, *rest = d.operands
        following = d.index + 1
        if d.guard is not None or len(rest) != 1 or not isinstance(rest[0], MachineImmediate):
            raise unknown_form(d)
        place = self._lanes.fetcher(register)
        code = self._program.code
        base = code[d.index].source.address + (code[following].source.address - code[following - 1].source.address)
        distance = np.int64(np.uint32(rest[0].bits).view(np.int32)) + base
        index = {code[at].source.address: self._number[at] for at in set(self._program.labels.values())}

        def jump(lane_group: LaneGroup) -> LaneGroup | None:
            places = np.broadcast_to(place().view(np.int32) + distance, (self._count,))
            mask = self._lane_groups.mask_of(lane_group)
            for goal in np.unique(places[mask]):
                if int(goal) not in index:
                    raise Uncountable(f"{d.text} leads to {int(goal):#x}")
                self._lane_groups.add(self._lane_groups.lane_group(index[int(goal)], mask & (places == goal)))
            return None

        return jump

    def _exit(self, d: Decoded, after: int) -> Transfer:
        lane_groups, truth = self._lane_groups, self._truth(d)
        both = [self._lanes.fetcher(o) for o in d.operands if isinstance(o, MachineRegister)]
        return lambda lane_group: lane_groups.leave(lane_group, truth() & both[0]() if both else truth(), after)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _call(self, d: Decoded, after: int) -> Transfer:
        if not self._paired:
            return self._branch(d, after)
        lane_groups, truth = self._lane_groups, self._truth(d)
        target = self._number[self._program.target(d)]

        def enter(lane_group: LaneGroup) -> LaneGroup | None:
            self._returns[lane_groups.mask_of(lane_group) & truth()] = after
            return lane_groups.split(lane_group, truth(), target, after)

        return enter

    def _return(self, d: Decoded, after: int) -> Transfer:
        truth, back = self._truth(d), self._lanes.fetcher(d.operands[0])
        code = self._program.code
        following = [c.index + 1 for c in self._program.calls]
        index = {code[i].source.address: self._number[i] for i in following}

        def go_back(lane_group: LaneGroup) -> LaneGroup | None:
            places = np.broadcast_to(back(), (self._count,))
            everyone = self._lane_groups.mask_of(lane_group)
            mask = everyone & truth()
            self._lane_groups.add(self._lane_groups.lane_group(after, everyone & ~mask))
            for place in np.unique(places[mask]):
                if int(place) not in index:
                    raise Uncountable(f"return to {int(place):#x}")
                lanes = mask & (places == place)
                if self._paired and (self._returns[lanes] != index[int(place)]).any():
                    raise Uncountable(f"return to {int(place):#x}, which is not after the call")
                self._lane_groups.add(self._lane_groups.lane_group(index[int(place)], lanes))
            return None

        return go_back

    # -- barriers -----------------------------------------------------------------------------------------------------

    def _expect(self, d: Decoded, after: int) -> Transfer:
        lane_groups, barrier = self._lane_groups, _barrier(d)

        def begin(lane_group: LaneGroup) -> LaneGroup:
            lane_groups.expect(lane_group, barrier)
            lane_group.block = after
            return lane_group

        return begin

    def _reconverge(self, d: Decoded, after: int) -> Transfer:
        lane_groups, barrier = self._lane_groups, _barrier(d)
        if d.guard is not None:
            raise unknown_form(d)
        return lambda lane_group: lane_groups.reconverge(lane_group, barrier, after)

    def _move(self, d: Decoded, after: int) -> Transfer:
        """BMOV.CLEAR RZ, B0 before Ampere; BMOV.CLEAR R16, B6 and BMOV B6, R16 around a function's own barriers."""
        to, source = d.operands
        if d.guard is not None or not isinstance(to, MachineRegister):
            raise unknown_form(d)
        if d.has("CLEAR") and not results(d)[0]:
            return self._leave_barrier(d, after)
        lanes, lane_groups, barrier = self._lanes, self._lane_groups, _barrier(d)
        if d.has("CLEAR") == (to.file == "B"):
            raise unknown_form(d)
        saved = None if to.file != "B" else lanes.fetcher(source)

        def move(lane_group: LaneGroup) -> LaneGroup:
            if saved is None:
                tokens = lane_groups.save(lane_group, barrier)
                lanes.write(to.shifted(0), tokens, lane_group.mask)
            else:
                lane_groups.restore(lane_group, barrier, saved())
            lane_group.block = after
            return lane_group

        return move

    def _leave_barrier(self, d: Decoded, after: int) -> Transfer:
        lane_groups, barrier, chosen = self._lane_groups, _barrier(d), self._chosen(d)

        def leave(lane_group: LaneGroup) -> LaneGroup:
            lane_groups.leave_barrier(lane_groups.mask_of(lane_group) & chosen(), barrier)
            lane_group.block = after
            return lane_group

        return leave

    def _sync(self, d: Decoded, after: int) -> Transfer:
        lane_groups, members, exclusive = self._lane_groups, self._members(d), d.has("EXCLUSIVE")
        guard = self._lanes.guard(d)
        if guard is None:
            return lambda lane_group: lane_groups.sync(lane_group, members(), exclusive, after)
        truth = guard

        def sync_some(lane_group: LaneGroup) -> LaneGroup | None:
            lanes = lane_groups.mask_of(lane_group)
            meeting = lanes & truth()
            others = lanes & ~meeting
            if not others.any():
                return lane_groups.sync(lane_group, members(), exclusive, after)
            if (meeting.reshape(-1, WARP).any(axis=1) & others.reshape(-1, WARP).any(axis=1)).any():
                raise Uncountable(f"only some lanes of a warp wait: {d.text}")
            lane_groups.add(lane_groups.lane_group(after, others))
            if not meeting.any():
                return None
            return lane_groups.sync(lane_groups.lane_group(lane_group.block, meeting), members(), exclusive, after)

        return sync_some

    def _members(self, d: Decoded) -> Fetch:
        """Fetch the masks of WARPSYNC."""
        if d.has("ALL"):
            return lambda: EVERYONE
        mask = next((o for o in d.operands if isinstance(o, (MachineRegister, MachineImmediate))), None)
        if mask is None:
            raise unknown_form(d)
        return self._lanes.fetcher(mask)

    def _park(self, d: Decoded, after: int) -> Transfer:
        if not self._parks or d.has("ARV"):
            return _continue_at(after)

        def park(lane_group: LaneGroup) -> None:
            self._lane_groups.park(lane_group, after)

        return park


def _continue_at(after: int) -> Transfer:
    def go_on(lane_group: LaneGroup) -> LaneGroup:
        lane_group.block = after
        return lane_group

    return go_on


def _barrier(d: Decoded) -> str:
    for operand in d.operands:
        if isinstance(operand, MachineRegister) and operand.file == "B":
            return operand.shifted(0)
    raise unknown_form(d)


TABLE: Mapping[str, Callable[[ControlFlow, Decoded, int], Transfer]] = {
    "BRA": ControlFlow._branch, "BRX": ControlFlow._jump, "CALL": ControlFlow._call, "RET": ControlFlow._return,
    "EXIT": ControlFlow._exit, "KILL": ControlFlow._exit, "BSSY": ControlFlow._expect,
    "BSYNC": ControlFlow._reconverge, "BMOV": ControlFlow._move, "BREAK": ControlFlow._leave_barrier,
    "WARPSYNC": ControlFlow._sync, "BAR": ControlFlow._park,
    "BPT": lambda control, d, after: control._unfollowable(d, after, "the kernel stops itself"),
}  # fmt: skip
