"""Where a launch's accesses to global memory are served: L1, L2 or DRAM. Known from addresses and sizes of caches.

    traced blocks -> sectors by buffer, of a block and of the launch -> Levels, for ``timeline``; bytes of the launch

- **L1** is played: it holds what shared memory leaves of it, in lines of 128 bytes, the oldest of which gives way.
- **A launch touches** what all blocks do, what several share once (``sass.reach``), and no more of a buffer than all of
  it.
- **L2**: launches repeat, so a launch finds in L2 what the one before it left. If all that it touches fits, nothing
  comes from DRAM. Where it does not fit, L2 has replaced each line before the launch comes back to it: the launch's
  first request for a sector goes to DRAM, and later ones, of other blocks, find it in L2. In between a part of them
  does; lines that were stored need half as much room again.
- **Sides**: L2 has two on some chips. Each keeps what its own multiprocessors read, and few blocks are more on one.
- **DRAM** then takes the unique bytes, at the rate of reads, or of reads and writes in turn. What blocks touch again
  when L2 has lost it counts again. Sectors without a neighbour take longer, most of all those stored in part.
- **Atomics** are executed by L2: a round for each lane of a warp at the same address, one after the other where they
  meet in a slice of L2. The busiest slice is a floor, and for floating point the busiest sector.

Replacement is not followed, nor which set a line falls into.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from gemm_lessons.engine.costs.banks import SECTOR, WARP
from gemm_lessons.engine.estimate.chip import share_of_l2
from gemm_lessons.engine.hardware.sheets import KIB, GpuSpec, pipes_of
from gemm_lessons.engine.machine.memory import ALLOCATION_SPACING, GlobalMemory
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.reach import SLOT, Sharing, adds_floats, slices, slices_of
from gemm_lessons.engine.sass.trace import LINE_SECTORS, SampledTrace, Trace
from gemm_lessons.engine.sass.trace import Traffic as Access

L1_ONLY = 28 * KIB  # of a multiprocessor's L1, what shared memory cannot have
# What a launch touches, and half of what it stores once more, over L2's size (traffic_h200.json): up to the first, it
# finds all of it in L2; a little above, much is gone; from the last on, the more stores the later, it finds nothing.
STORED, LATER = 0.5, 0.4
HELD, MUCH, GONE = 0.98, (1.02, 0.6), 1.2
# L1 has dropped the oldest part of local memory when a thread comes back to it: more than does not fit.
OLDEST = 1.3
# Few blocks (few_h200.json): which share of them is on one side of L2, by their number over the multiprocessors', and
# which lines miss there, by what they touch over its size.
SIDES = (0.06, 0.09, 0.18, 0.36, 1.0), (1.0, 0.83, 0.75, 0.68, 0.5)
ONE_SIDE = (1.0, 1.07, 1.2, 1.3, 1.45, 1.6), (0.0, 0.03, 0.09, 0.18, 0.6, 1.0)
READS, BOTH, WRITES = 0.97, 0.82, 0.92  # of DRAM's bandwidth: reads, as many writes, writes alone
# A sector from DRAM waits for so much of DRAM's work on those in flight, twice that of writes (streams_h200.json).
LOADED = 0.4
# A sector that has no other one near it costs DRAM so many bytes more (scatter_h200.json): read, with the other half of
# 64 bytes, and stored in part, with the other part fetched first.
LONELY, MENDED = 53.0, 206.0
# Which sectors that are stored in part leave L2 before the rest is, by what is kept there over its size.
UNFINISHED = (1.0, 1.9, 3.8), (0.0, 0.83, 1.0)
# Clocks of L2 for a round of atomics (adds_h200.json): in a slice 1.2 to 1.7, and for sums of floats in a sector.
ROUND, FLOATS = 1.4, 3.5


class Levels(NamedTuple):
    """What ``timeline`` needs to know of memory beyond L1.

    ``l1_lines``: capacity of L1. ``far``: of each buffer, by its slot, the share of sectors first asked for that come
    from DRAM. ``dram_sector``: clocks of a multiprocessor's share of DRAM for one, and for what is written meanwhile;
    ``loaded``: clocks that one waits for each other one in flight. ``atomic``: clocks of the buffer's busiest slice of
    L2 for each round of a multiprocessor's atomics. ``working``: what few blocks divide among them (``share_of_l2``).
    """

    l1_lines: int
    far: Mapping[int, float]
    dram_sector: float
    loaded: float
    atomic: Mapping[int, float]
    working: float


class LaunchBytes(NamedTuple):
    """Bytes of a launch between multiprocessors and L2 and between L2 and DRAM, and the time of the latter."""

    l2: float
    dram: float
    dram_seconds: float


@dataclass(frozen=True)
class BufferUse:
    """Sectors of one buffer: what blocks ask for, each block each sector once; what a launch reads and writes."""

    asked: float
    read: float
    written: float
    size: int

    @property
    def touched(self) -> float:
        """Return the sectors that are read or written, by the larger of the two: most often, both are the same."""
        return max(self.read, self.written)


def levels_of(
    sampled: SampledTrace,
    blocks: int,
    resident_shared: int,
    memory: GlobalMemory,
    gpu: GpuSpec,
    reach: Callable[[], Sharing | None],
) -> tuple[Levels, LaunchBytes]:
    """Return where the accesses of a launch of so many ``blocks`` are served, and what it moves.

    ``resident_shared``: bytes of shared memory that resident blocks take. ``reach`` is asked where it matters how many
    blocks share what they touch: where L2 might not hold all buffers, and for atomics.
    """
    traced = len(sampled.long.warps) // sampled.long.warps_per_block
    scale = blocks * sampled.work / traced
    counts = [_Counts(trace) for trace in ((sampled.long, sampled.short) if sampled.short else (sampled.long,))]

    def whole(quantity: str, slot: int | None = None) -> float:
        """Return a quantity of all traced blocks."""
        values = [it.of(quantity, slot) for it in counts]
        return values[0] + sampled.beyond * max(values[0] - values[-1], 0.0)

    adds = any(it.of("adding", None) for it in counts)
    matters = adds or sum(it.size for it in memory.allocations) * (1 + STORED) > HELD * gpu.l2_bytes
    far = reach() if matters and blocks > traced else None

    def unique(quantity: str, slot: int, size: float) -> float:
        """Return how much of a buffer a launch touches: as much as all blocks, but what they share once. Where only
        neighbours are known, each further block adds what the traced ones add."""
        each, all_traced = whole(f"{quantity} by each", slot) / traced, whole(quantity, slot)
        if far is None:
            more = each if traced == 1 else (all_traced - each) / (traced - 1)
            return min(each + more * (scale * traced - 1), size)
        if far.whole:
            each = max(each, far.each(quantity, slot))
        return max(min(each * scale * traced * far.alone(quantity, slot), size), all_traced)

    def later(quantity: str, slot: int, within: float) -> float:
        """Return how much of a buffer blocks touch, with what others of them touch that are next to each other once."""
        assert far is not None
        each = max(far.each(quantity, slot) if far.whole else 0.0, whole(f"{quantity} by each", slot) / traced)
        return each * scale * traced * far.alone(quantity, slot, within)

    buffers: dict[int, BufferUse] = {}
    atomic: dict[int, float] = {}
    for allocation in memory.allocations:
        slot, size = allocation.base // ALLOCATION_SPACING, -(-allocation.size // SECTOR)
        asked = whole("read by each", slot) * scale
        buffers[slot] = BufferUse(asked, unique("read", slot, size), unique("written", slot, size), size)
        if adding := whole("adding", slot) * scale:
            meeting = (
                whole(f"busiest {name}", slot) * scale * whole(name, slot) / unique(name, slot, most)
                for name, most in (("slices", slices_of(size)), ("sums", size))
                if whole(name, slot)
            )
            atomic[slot] = max(meeting) * min(blocks, gpu.sms) / adding
    boxes = min(whole("boxes") * scale, sum(it.size for it in buffers.values()))
    read = sum(it.read for it in buffers.values()) + boxes
    written = sum(it.written for it in buffers.values())
    touched = sum(it.touched for it in buffers.values()) + boxes
    missed = missed_by_l2(touched * SECTOR, written * SECTOR, gpu)
    if pipes_of(gpu).sides:
        missed = max(missed, missed_by_sides(blocks, touched * SECTOR, gpu))
    fetched, stored, lonely = read, written, 0.0  # sectors, and bytes, if L2 holds nothing
    visited = {slot: it.read for slot, it in buffers.items()}
    if far is not None and missed:
        together = traced * gpu.sms  # blocks that run at once
        each = sum(
            factor * later(name, slot, together) * SECTOR / blocks
            for name, factor in (("read", 1), ("written", 1 + STORED))
            for slot in buffers
        )
        near = max(together, HELD * gpu.l2_bytes / max(each, 1.0))  # blocks that find in L2 what others touched
        kept = written + sum(far.scattered("read", slot, near) * it.read for slot, it in buffers.items())
        mended = float(np.interp((kept + STORED * written) * SECTOR / gpu.l2_bytes, *UNFINISHED)) / missed
        for slot, it in buffers.items():
            scattered = far.scattered("read", slot, near)
            again = max(far.alone("read", slot, near) / far.alone("read", slot), 1.0)
            visited[slot] = it.read * again
            visited[slot] += scattered * max(later("read", slot, near) - visited[slot], 0.0)
            alone = scattered * visited[slot]
            parts = far.parts(slot, near) * later("written", slot, near) * mended
            fetched += visited[slot] - it.read + alone + parts  # of a lone sector, the other half of 64 bytes, too
            stored += max(parts - it.written, 0.0)
            lonely += LONELY * alone + MENDED * far.scattered("parts", slot, near) * parts
    rate = dram_rate(fetched, stored, gpu)
    dram = (fetched + stored) * missed * SECTOR
    seconds = dram / rate + lonely * missed / gpu.dram_bytes_per_s
    working = share_of_l2(blocks, gpu)
    sector = seconds / missed / (sum(visited.values()) + boxes) if missed and read else 0.0
    sector *= gpu.sms * gpu.clock_hz
    writes = stored / fetched if fetched else 0.0
    levels = Levels(
        l1_bytes(resident_shared, gpu) // (SECTOR * LINE_SECTORS),
        {slot: missed * min(visited[slot] / it.asked, 1.0) for slot, it in buffers.items() if it.asked},
        max(sector * working, pipes_of(gpu).port_dram),
        LOADED * sector * (1 + 2 * writes) / (1 + writes),
        atomic,
        working,
    )
    moved = (whole("read by each") + whole("delivered") + whole("stored")) * scale * SECTOR
    return levels, LaunchBytes(moved, dram, seconds)


def l1_bytes(resident_shared: int, gpu: GpuSpec) -> int:
    """Return what L1 holds beside the shared memory of resident blocks."""
    return max(gpu.shared_bytes_per_sm + L1_ONLY - resident_shared, L1_ONLY)


def missed_in_l1(trace: Trace, blocks: int, gpu: GpuSpec) -> float:
    """Return the share of loads from local memory that L1 does not hold, of so many resident blocks that go through
    theirs again and again (local_h200.json)."""
    touched = blocks * trace.warps_per_block * WARP * trace.local
    held = l1_bytes(blocks * (trace.shared + gpu.shared_reserved_per_block), gpu)
    return min(max(0.0, OLDEST * (1 - held / touched)), 1.0) if touched else 0.0


def missed_by_l2(touched: float, written: float, gpu: GpuSpec) -> float:
    """Return the share of accesses that miss in L2 what was there before ``touched`` bytes, ``written`` of them."""
    gone = GONE + LATER * written / max(touched, 1.0)
    return float(np.interp((touched + STORED * written) / gpu.l2_bytes, (HELD, MUCH[0], gone), (0.0, MUCH[1], 1.0)))


def missed_by_sides(blocks: int, touched: float, gpu: GpuSpec) -> float:
    """Return the share of accesses that miss in L2 because few ``blocks`` are more on one side of the chip: what they
    read is on that side."""
    side = touched * np.interp(blocks / gpu.sms, *SIDES) / (gpu.l2_bytes / 2)
    return float(np.interp(side, *ONE_SIDE))


def dram_rate(read: float, written: float, gpu: GpuSpec) -> float:
    """Return the bytes per second of DRAM for so much that is read and written in turn."""
    both = 2 * min(read, written) / (read + written) if written else 0.0
    alone = READS if read >= written else WRITES
    return gpu.dram_bytes_per_s * (alone + (BOTH - alone) * both)


class _Counts:
    """Sectors of the traced blocks by buffer; ``... by each``: summed over blocks, each of them once a block."""

    def __init__(self, trace: Trace) -> None:
        self._values: dict[str, Counter[int]] = {}
        self._busiest: dict[tuple[str, int], float] = {}  # clocks of the slice or sector where most atomics meet
        union: dict[str, set[int]] = {"read": set(), "written": set(), "slices": set(), "sums": set()}
        at_slices: Counter[int] = Counter()  # rounds
        sums: Counter[int] = Counter()  # of floating point, by sector
        for accesses in _blocks(trace):
            own: dict[str, set[int]] = {name: set() for name in union}
            for index, touch in accesses:
                if touch.box:
                    self._add("boxes", 0, len(touch.sectors))
                    self._add("delivered", 0, touch.delivered)
                elif touch.load:
                    own["read"].update(touch.sectors)
                else:
                    slot = touch.sectors[0] // SLOT
                    self._add("stored", slot, len(touch.sectors))
                    own["written"].update(touch.sectors)
                    if touch.atomic:
                        self._add("adding", slot, sum(touch.rounds))
                        for sector, rounds in zip(touch.sectors, touch.rounds, strict=True):
                            own["slices"].add(slices(sector))
                            at_slices[slices(sector)] += rounds
                            if adds_floats(trace.code[index]):
                                own["sums"].add(sector)
                                sums[sector] += rounds
            for name, sectors in own.items():
                union[name] |= sectors
                for slot, count in _slots(sectors).items():
                    self._add(f"{name} by each", slot, count)
        self._values |= {name: Counter(_slots(sectors)) for name, sectors in union.items()}
        for name, rounds_at, clocks in (("slices", at_slices, ROUND), ("sums", sums, FLOATS)):
            for sector, rounds in rounds_at.items():
                key = f"busiest {name}", sector // SLOT
                self._busiest[key] = max(self._busiest.get(key, 0.0), rounds * clocks)

    def _add(self, quantity: str, slot: int, count: int) -> None:
        self._values.setdefault(quantity, Counter())[slot] += count

    def of(self, quantity: str, slot: int | None) -> float:
        """Return a quantity of all buffers, or of the one in a slot."""
        if slot is not None and (quantity, slot) in self._busiest:
            return self._busiest[quantity, slot]
        values = self._values.get(quantity, Counter())
        return values.total() if slot is None else values[slot]


def _blocks(trace: Trace) -> Iterator[Iterator[tuple[int, Access]]]:
    for first in range(0, len(trace.warps), trace.warps_per_block):
        warps = trace.warps[first : first + trace.warps_per_block]
        yield ((at, it) for warp in warps for at, it in warp if isinstance(it, Access) and it.space == "global")


def _slots(sectors: set[int]) -> dict[int, int]:
    slots, counts = np.unique(np.fromiter(sectors, np.int64, len(sectors)) // SLOT, return_counts=True)
    return dict(zip(slots.tolist(), counts.tolist(), strict=True))
