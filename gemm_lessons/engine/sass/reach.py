"""How many blocks of a launch share what one of them touches: ``Sharing``, from blocks all over the grid.

    Traceable.reach -> sectors of some blocks, by buffer -> Sharing        for ``estimate.traffic``

Blocks next to each other may touch the same, such as the same rows, and those far away something else, or the other way
round. So one block is compared with others at growing distances along each axis of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from gemm_lessons.engine.costs.banks import SECTOR
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.machine.memory import ALLOCATION_SPACING
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.lanes import Geometry
from gemm_lessons.engine.sass.memory_contents import Store
from gemm_lessons.engine.sass.operands import Decoded
from gemm_lessons.engine.sass.planning import Plan
from gemm_lessons.engine.sass.textures import Texels
from gemm_lessons.engine.sass.walker import MemoryUse, Step, Walker

SLOT = ALLOCATION_SPACING // SECTOR  # sectors between two buffers
# Of each kilobyte, the first and the third quarter are in one slice of L2, the others in another one.
KILOBYTE, QUARTER = 32, 8  # sectors
MOST = 3_000_000  # accesses of threads that are looked at, about a second
BITS = 48  # of a sector's number
WORD, WORDS = 4, 8  # bytes; words of a sector
TWO = 1.5  # blocks, between one and two
FAR = 64  # blocks
PLACE = 32  # sectors in a row of DRAM that one access opens for the others
MERGED = 64  # lists of sectors, which are then made one
NONE = np.array([], np.int64)
Touched = Mapping[tuple[str, int], Array]  # by what is done there, and the buffer's slot: sectors


@dataclass(frozen=True)
class Sharing:
    """What some blocks touch. ``blocks``: each by its number; ``base``: the one that the others are compared with;
    ``spread``: those that stand for all; ``size``: of the grid. ``whole``: all accesses were looked at."""

    blocks: Mapping[int, Touched]
    base: int
    spread: Sequence[int]
    size: tuple[int, int, int]
    whole: bool

    def each(self, quantity: str, slot: int) -> float:
        """Return what a block touches on average."""
        return sum(len(self._of(it, quantity, slot)) for it in self.spread) / len(self.spread)

    def alone(self, quantity: str, slot: int, within: float = math.inf) -> float:
        """Return which share of what a block touches is its own: places that others touch, too, count in part.
        ``within``: only of so many blocks that are next to each other."""
        together = self.together(quantity, slot, within)
        return float((1 / together).mean()) if len(together) else 1.0

    def together(self, quantity: str, slot: int, within: float = math.inf) -> Array:
        """Return how many blocks touch each place that a block touches, of so many next to each other."""
        mine, step = self._of(self.base, quantity, slot), 1
        together = np.ones(len(mine))  # blocks that touch each place
        for extent in self.size:
            coordinate, along = self.base // step % extent, np.ones(len(mine))
            for sign, room in ((1, extent - 1 - coordinate), (-1, coordinate)):
                if within / 2 < room * step:
                    room = (1 << int(within / 2 // step).bit_length()) // 2
                there, each = [0, *distances(room)], np.arange(1, room + 1)
                for number in range(1, len(there)):  # between them, what is touched changes evenly
                    weight = np.interp(each, there, np.arange(len(there)) == number).sum()
                    other = self._of(self.base + sign * there[number] * step, quantity, slot)
                    along += weight * np.isin(mine, other, assume_unique=True)
                along += np.interp(each, there, [1.0] + [0.0] * (len(there) - 1)).sum()
            together, step = together * along, step * extent
        return together

    def parts(self, slot: int, within: float) -> float:
        """Return which share of the sectors that a block writes it writes in part, and no block next to it the rest."""
        if not (written := self.each("written", slot)):
            return 0.0
        alone = self.together("parts", slot, within) < TWO
        return self.each("parts", slot) / written * (float(alone.mean()) if len(alone) else 1.0)

    def scattered(self, quantity: str, slot: int, within: float) -> float:
        """Return which share of a block's sectors have no other near them, of those that it or a block next to it reads
        or writes."""
        mine, others = (self._of(self.base, it, slot) for it in (quantity, "read" if quantity == "read" else "written"))
        places, count = np.unique(others // PLACE, return_counts=True)
        lonely = np.isin(mine // PLACE, places[count == 1]) & (self.together(quantity, slot, within) < TWO)
        return float(lonely.mean()) if len(mine) else 0.0

    def _of(self, block: int, quantity: str, slot: int) -> Array:
        return self.blocks[block].get((quantity, slot), NONE)


def distances(room: int) -> list[int]:
    """Return growing distances up to ``room``; far away also those beside them, where other blocks may touch others."""
    powers = [1 << power for power in range(room.bit_length())]
    beside = {it + more for it in powers if it >= FAR for more in (-1, 1)}
    return sorted(it for it in {*powers, *beside, room} if 0 < it <= room)


def compared(base: int, size: Sequence[int]) -> set[int]:
    """Return a block and others along each axis of the grid, at growing distances."""
    found, step = {base}, 1
    for extent in size:
        coordinate = base // step % extent
        found.update(base + it * step for it in distances(extent - 1 - coordinate))
        found.update(base - it * step for it in distances(coordinate))
        step *= extent
    return found


class _Enough(Exception):
    """No more accesses need to be looked at."""


class Reaching(Walker):
    """Records the sectors that each block reads and writes, those it stores a part of, and where it adds: slices of L2,
    and sectors for floats."""

    def __init__(
        self,
        plan: Plan,
        geometry: Geometry,
        constants: dict[int, bytes],
        store: Store | None,
        textures: Mapping[int, Texels],
        boxes: Mapping[int, Any],
    ) -> None:
        self._found: dict[str, list[Array]] = {}
        self._left = MOST
        super().__init__(plan, geometry, constants, Sums(), store, watch=lambda *_: None, textures=textures)
        self._block = np.repeat(np.arange(geometry.blocks, dtype=np.int64), geometry.padded)

    def _uses(self, d: Decoded) -> Iterator[MemoryUse]:
        yield from (use for use in super()._uses(d) if use.access.space == "global")

    def _touch(self, d: Decoded, use: MemoryUse) -> Step:
        loads = use.access.effect in ("load", "copy")
        names = ["read" if loads else "written"]
        stores = use.access.effect == "store"
        width = use.access.width
        if use.access.effect == "atomic":
            names += ["slices", "sums"] if adds_floats(d) else ["slices"]

        def touch() -> None:
            some, mask = self.lanes.active(use.guard)
            if not some:
                return
            alive = self.lane_groups.alive
            active = alive if mask is None else mask & alive
            addresses = np.broadcast_to(use.address(), (self.geometry.lanes,))[active].astype(np.int64)
            where = addresses // SECTOR
            self._left -= len(where)
            if stores:
                words = addresses[:, None] // WORD + np.arange(-(-width // WORD))
                self._note("words", (self._block[active] << BITS)[:, None] * WORDS + words)
            for name in names:
                places = slices(where) if name == "slices" else where
                self._note(name, self._block[active] << BITS | places)
            if self._left <= 0:
                raise _Enough

        return touch

    def _note(self, name: str, keys: Array) -> None:
        found = self._found.setdefault(name, [])
        found.append(np.unique(keys))
        if len(found) > MERGED:
            self._found[name] = [np.unique(np.concatenate(found))]

    def run(self, *given: Any) -> None:
        """Follow the blocks to their end, or until enough was looked at."""
        with suppress(_Enough):
            super().run(*given)

    def reach(self, base: int, spread: Sequence[int], size: tuple[int, int, int]) -> Sharing:
        """Return what was found."""
        blocks: dict[int, dict[tuple[str, int], Array]] = {it: {} for it in self.geometry.chosen}
        if words := self._found.pop("words", []):
            stored, count = np.unique(np.unique(np.concatenate(words)) // WORDS, return_counts=True)
            self._found |= {"parts": [parts]} if len(parts := stored[count < WORDS]) else {}
        for name, found in self._found.items():
            keys = np.unique(np.concatenate(found))
            slots, starts = np.unique(keys >> BITS << BITS | (keys & (1 << BITS) - 1) // SLOT, return_index=True)
            for key, part in zip(slots.tolist(), np.split(keys, starts[1:]), strict=True):
                blocks[self.geometry.chosen[key >> BITS]][name, key & (1 << BITS) - 1] = part & (1 << BITS) - 1
        return Sharing(blocks, base, spread, size, self._left > 0)


def slices(sectors: Any) -> Any:
    """Return a sector for all those that are in the same slice of L2, as far as that is known."""
    return sectors // KILOBYTE * KILOBYTE + sectors // QUARTER % 2 * QUARTER


def slices_of(size: int) -> int:
    """Return how many such sectors a buffer of so many sectors has."""
    return 1 if size <= QUARTER else 2 * -(-size // KILOBYTE)


def adds_floats(d: Decoded) -> bool:
    """Tell whether an atomic adds numbers of floating point."""
    return any(it.startswith("F") and it[1:3].isdigit() for it in d.modifiers)
