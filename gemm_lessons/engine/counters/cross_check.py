"""Compare the two engines that follow every counted launch.

    PTX, interpreted ---------> Account --+
                                          +--> equal: agreed.  Else second_opinion/exact.py compares words
    machine code, followed ---> Account --+

PTX gives the values and the findings, machine code the counters. Where a machine instruction has a counterpart in PTX,
both use the same function for it, which has its own tests. They differ in how instructions are read, ordered, grouped,
memoised, predicated and branched around. So almost every mistake in one engine shows as a difference in the bytes
touched (``costs/footprint.py``), the barrier arrivals, or the multiply-adds. The comparison allows exactly what ptxas
may change. A disagreement is a defect of the kit, not of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gemm_lessons.engine.costs.footprint import Footprint, moved, pattern
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.events import WARP, Access, Batch, Touch
from gemm_lessons.engine.ptx import cfg
from gemm_lessons.engine.ptx.anticipated import always_needed
from gemm_lessons.engine.ptx.cfg import Block
from gemm_lessons.engine.ptx.common_subexpressions import repeated
from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import KitError

Kind = tuple[str, str]  # space and effect: ("shared", "load")
Place = tuple[str, int | None]  # file and line

PTX, MACHINE_CODE = "the PTX interpreter", "the machine code"


class Disagreement(KitError):
    """The two engines contradict each other: a defect of the kit. The result for the kernel is unknown."""

    def __init__(self, what: str, line: int | None = None) -> None:
        place = f" (line {line})" if line is not None else ""
        super().__init__(
            f"the simulator contradicts itself, so there is no verdict: {what}{place}. "
            "This is a fault of gemm-lessons, not of the kernel; please report it together with the kernel"
        )
        self.what, self.line = what + place, line


@dataclass
class Account:
    """What one engine counted of a launch."""

    touched: dict[Access, Footprint] = field(default_factory=dict)
    arrivals: int = 0  # barrier arrivals of threads, summed over all barriers
    fused: int = 0  # threads that executed a multiply-add in fp32
    by_warps: bool = False  # the lane within a warp is ignored
    window: int = 0  # bytes of a block's shared memory
    whole: dict[Access, Footprint] = field(default_factory=dict)  # of copies that read only a part of what they write

    def add(self, touches: Mapping[Touch, int], batch: Batch) -> None:
        """Add the touches of a batch of the PTX machine, with their counts."""
        for touch, times in touches.items():
            access = touch.access
            one = touch.memo.get("footprint")
            if one is None:
                one = touch.memo["footprint"] = pattern(
                    touch.addresses, touch.of_own_block(self.window), batch.padded_threads, self.by_warps
                )
            factor = moved(touch.bases) if touch.bases else times
            touch.bases.clear()
            footprint = self.touched.setdefault(access, Footprint())
            footprint.add(one, times, factor, access.width, batch.place)
            if access.whole:
                self.whole.setdefault(access, Footprint()).add(one, times, factor, access.whole, batch.place)

    @classmethod
    def followed(cls, sums: Sums) -> Account:
        """Return the account of the machine code."""
        return cls({t.access: t.footprint for t in sums.tallies.values()}, sums.arrivals, sums.ffma)

    def without(self, places: frozenset[Place]) -> Account:
        """Return the account of all other lines of the source."""
        if not places:
            return self
        touched = {it: footprint for it, footprint in self.touched.items() if (it.file, it.line) not in places}
        return replace(self, touched=touched)

    def of(self, kind: Kind, whole: bool = False) -> Footprint:
        """Return the footprint of one space and effect. ``whole``: as if copies read as much as they write."""
        total = Footprint()
        for access, footprint in self.touched.items():
            if (access.space, access.effect) == kind:
                total.merge(self.whole.get(access, footprint) if whole else footprint)
        return total

    def kinds(self) -> set[Kind]:
        """Return the kinds touched, without constants and local memory: operands and registers in machine code."""
        return {(a.space, a.effect) for a, f in self.touched.items() if f.bytes and a.space in ("shared", "global")}


def doubts(interpreted: Account, followed: Account, origin: int) -> tuple[Kind, ...]:
    """Return the spaces and effects in which the engines touched different bytes.

    ``origin``: first byte of shared memory in machine code. There, a copy that fills up with zeros counts as reading
    its full width.
    """
    different = []
    for kind in sorted(interpreted.kinds() | followed.kinds()):
        mine, theirs = interpreted.of(kind), followed.of(kind)
        if (mine.shifted(origin) if kind[0] == "shared" else mine) == theirs:
            continue
        if not interpreted.whole or interpreted.of(kind, whole=True) != theirs:
            different.append(kind)
    return tuple(different)


def check_barriers(interpreted: Account, followed: Account, instructions: Sequence[Instruction], threads: int) -> None:
    """Raise ``Disagreement`` if the numbers of barrier arrivals differ."""
    barriers = [i for i in instructions if cfg.is_barrier(i)]
    if interpreted.arrivals == followed.arrivals or any(i.guard is not None for i in barriers):
        return
    if threads <= WARP and followed.arrivals == 0:  # ptxas needs no barrier for a single warp
        return
    if any(map(cfg.is_cluster_barrier, instructions)) and followed.arrivals > interpreted.arrivals:
        return  # ptxas lets a block of unknown cluster size meet before it arrives at the barrier of the cluster
    line = cfg.line_of(barriers[0]) if barriers else None
    raise Disagreement(_counts("thread arrivals at barriers", interpreted.arrivals, followed.arrivals), line)


def check_fused(interpreted: Account, followed: Account, blocks: Sequence[Block], lanes: Array) -> None:
    """Raise ``Disagreement`` if machine code has fewer or more multiply-adds than ptxas can have made.

    ``lanes``: threads that executed each PTX instruction. ptxas may execute a guarded one without its guard, and select
    the result.
    """
    if interpreted.fused == followed.fused:
        return
    instructions = [i for block in blocks for i in block.instructions]
    needed = always_needed(blocks) - repeated(blocks)
    least = sum(int(lanes[i.index]) for i in instructions if is_fused(i) and i.index in needed)
    most = sum(
        threads * sum(_multiply_adds_after_ptxas(i) for i in block.instructions)
        for block, threads in zip(blocks, _reached(blocks, lanes), strict=True)
    )
    if least <= followed.fused <= most:
        return
    line = next((cfg.line_of(i) for i in instructions if is_fused(i)), None)
    raise Disagreement(_counts("multiply-adds in fp32", interpreted.fused, followed.fused), line)


def _reached(blocks: Sequence[Block], lanes: Array) -> list[int]:
    """Return the number of threads that executed each basic block, whatever the guards of its instructions."""
    found = [0] * len(blocks)
    for block in reversed(blocks):
        found[block.number] = max((int(lanes[i.index]) for i in block.instructions), default=0)
        if block.terminator is None and block.fallthrough is not None:  # every instruction may have a guard
            found[block.number] = max(found[block.number], found[block.fallthrough])
    return found


def is_fused(instruction: Instruction) -> bool:
    """Return whether the instruction is an fp32 multiply-add."""
    return instruction.opcode == "fma" and instruction.modifiers[-1:] == ("f32",)


def _multiply_adds_after_ptxas(instruction: Instruction) -> int:
    kinds = {"f32", "f16", "f16x2", "bf16", "bf16x2"} & set(instruction.modifiers)
    most = instruction.row.ffma
    if most > 1:
        return most
    if not kinds:
        return 0
    return 2 * most if kinds & {"f16x2", "bf16x2"} else most


def _counts(what: str, mine: int, theirs: int) -> str:
    return f"{PTX} counts {mine:,} {what}, {MACHINE_CODE} {theirs:,}"


def touched_otherwise(interpreted: Account, followed: Account, kind: Kind, line: int | None) -> Disagreement:
    """Return the disagreement about the bytes of ``kind``."""
    space, effect = kind
    mine, theirs = interpreted.of(kind).bytes, followed.of(kind).bytes
    what = f"{PTX} and {MACHINE_CODE} disagree about {space} {_PLURAL[effect]}: {mine:,} bytes against {theirs:,}"
    return Disagreement(what + (", by other threads or at other addresses" if mine == theirs else ""), line)


_PLURAL = {"load": "loads", "store": "stores", "atomic": "atomics", "copy": "copies"}
