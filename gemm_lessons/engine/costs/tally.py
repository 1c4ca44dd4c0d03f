"""Sums of the costs of memory instructions, for counts on PTX and on machine code."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

import numpy as np

from gemm_lessons.engine.costs import banks, copies
from gemm_lessons.engine.costs.footprint import Footprint
from gemm_lessons.engine.events import WARP, Access
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass

BYPASS, FILLING = ".BYPASS", ".ZFILL"  # of LDGSTS: past L1; it may read fewer bytes than it writes


@dataclass(frozen=True)
class Shot:
    """Cost of one touch, all its warps together. ``cost`` and ``ideal``: wavefronts (shared) or sectors (global)."""

    warps: int
    lanes: int
    cost: int
    ideal: int
    worst: tuple[int, int] = (0, 0)  # warp with the most excess wavefronts, and its excess
    certain: bool = True
    zeros: bool = False  # lanes of a copy ignore their source, in a form whose readings are too few
    requests: int = 0  # of the texture unit
    of_source: int = 0  # wavefronts of a copy beyond those of a store to the same addresses


def shot(access: Access, addresses: Array, active: Array | None, other: Array | None = None) -> Shot:
    """Analyse one execution of a memory instruction. ``addresses`` and ``active`` hold whole warps, flat.

    ``other``: of a copy in machine code, the addresses of its other side.
    """
    rows = addresses.reshape(-1, WARP)
    beside = None if other is None else other.reshape(-1, WARP)
    mask = None if active is None else active.reshape(-1, WARP)
    if mask is not None:
        some = mask.any(axis=1)
        if not some.all():
            where = np.flatnonzero(some)
            if len(where) == 0:
                return Shot(0, 0, 0, 0)
            rows, mask = rows[where], mask[where]
            beside = None if beside is None else beside[where]
        else:
            where = None
    else:
        where = None
    lanes = rows.size if mask is None else int(np.count_nonzero(mask))
    if access.space == "shared":
        cost, ideal, certain = wavefronts(access, rows, mask, beside)
        excess = cost - ideal
        warp = int(excess.argmax())
        worst = (warp if where is None else int(where[warp]), int(excess[warp]))
        if beside is None:
            return Shot(len(rows), lanes, int(cost.sum()), int(ideal.sum()), worst, certain)
        by_p0 = BYPASS in access.text and access.text.endswith(" P0")  # which lanes read is not known
        zeros = FILLING not in access.text and (by_p0 or (BYPASS not in access.text and _ignored(beside, mask)))
        stored, _ = banks.wavefronts(rows, mask, access.width, "store")
        of_source = int(np.maximum(cost - stored, 0).sum())
        return Shot(len(rows), lanes, int(cost.sum()), int(ideal.sum()), worst, certain, zeros, of_source=of_source)
    taking_part = np.full(len(rows), WARP) if mask is None else np.count_nonzero(mask, axis=1)
    best = int(banks.ideal_sectors(taking_part, access.width).sum())
    if access.space == "texture":
        requests, sectors = banks.texture_requests(rows, mask, access.width)
        return Shot(len(rows), lanes, int(sectors.sum()), best, requests=int(requests.sum()))
    return Shot(len(rows), lanes, int(_sectors(access, rows, mask, beside).sum()), best)


def _ignored(source: Array, mask: Array | None) -> bool:
    """Return whether some lanes ignore their source."""
    nothing = source == copies.NOWHERE
    return bool((nothing if mask is None else nothing & mask).any())


def wavefronts(
    access: Access, rows: Array, mask: Array | None, source: Array | None = None
) -> tuple[Array, Array, bool]:
    """Return the cost of an access to shared memory by warp, the ideal cost, and whether the cost is certain.

    ``source``: addresses that a copy reads, or ``NOWHERE``.
    """
    if source is None:
        return *banks.wavefronts(rows, mask, access.width, kind_of(access)), access.effect != "copy"
    if BYPASS in access.text:
        cost, ideal, _, certain = copies.past_l1(rows, source, mask, FILLING in access.text)
        return cost, ideal, certain
    return copies.through_l1(rows, source, mask, access.width)


def written_wavefronts(access: Access, rows: Array, mask: Array | None, source: Array) -> Array:
    """Return the wavefronts by warp in which a copy writes what it has read, without the second pass (zeros)."""
    if BYPASS not in access.text:
        return copies.through_l1(rows, source, mask, access.width)[0]
    cost, _, second, _ = copies.past_l1(rows, source, mask, FILLING in access.text)
    active = np.ones(len(rows), np.bool_) if mask is None else mask.any(axis=1)
    result: Array = np.maximum(cost - second, active)
    return result


def _sectors(access: Access, rows: Array, mask: Array | None, target: Array | None) -> Array:
    if access.effect == "atomic" and access.space == "global":
        return banks.rounds(rows, mask)
    if target is None or BYPASS not in access.text:
        return banks.sectors(rows, mask, access.width)
    return copies.sectors_past_l1(target, rows, mask)


def kind_of(access: Access) -> banks.AccessKind:
    """Return how the access is served.

    ATOMS.POPC.INC combines lanes at the same word first, so they share as in a store.
    """
    if access.is_matrix:
        return "matrix"
    return "store" if ".POPC." in access.text else access.effect


@dataclass
class Tally:
    """Sums of one memory instruction over a launch, and its worst touch."""

    access: Access
    executed: int = 0  # warps that executed the instruction, also with every lane predicated off
    warps: int = 0  # warps with an active lane
    lanes: int = 0
    cost: int = 0
    ideal: int = 0
    requests: int = 0  # of the texture unit
    of_source: int = 0  # wavefronts of a copy beyond those of a store to the same addresses
    worst_excess: int = 0
    worst: tuple[Array, Array | None] | None = None  # addresses and mask of one warp
    certain: bool = True  # the cost equals the profiler's count
    zeros: bool = False  # lanes of a copy ignored their source, in a form whose readings are too few
    footprint: Footprint = field(default_factory=Footprint)

    def add(self, one: Shot, times: int, addresses: Array, active: Array | None) -> None:
        """Add ``times`` occurrences of ``one`` at these addresses (whole warps, flat)."""
        self.warps += one.warps * times
        self.lanes += one.lanes * times
        self.cost += one.cost * times
        self.ideal += one.ideal * times
        self.requests += one.requests * times
        self.of_source += one.of_source * times
        self.certain = self.certain and one.certain
        self.zeros = self.zeros or one.zeros
        if one.worst[1] > self.worst_excess:
            lanes = slice(one.worst[0] * WARP, (one.worst[0] + 1) * WARP)
            self.worst_excess = one.worst[1]
            self.worst = (addresses[lanes].copy(), None if active is None else active[lanes].copy())


@dataclass
class Sums:
    """All counts of the memory accesses and multiply-adds of a launch."""

    tallies: dict[tuple[int, str], Tally] = field(default_factory=dict)  # by instruction and memory
    ffma: int = 0  # threads
    dfma: int = 0  # threads
    arrivals: int = 0  # threads at block-wide barriers
    waited_for: int = 0  # bytes from global memory not hidden by arithmetic (``sass/exposed_latency.py``)
    copy_groups: int = 0  # of cp.async, issued after the first product, warps
    copy_groups_span: int = 0  # multiply-adds from the first copy of a group to its last, warps
    reuse_flags: int = 0  # operands of multiply-adds kept for the next instruction, warps
    register_conflicts: int = 0  # clocks that multiply-adds lose to register banks, warps
    tensor_products: int = 0  # multiply-adds of tensor cores
    tile_wavefronts: int = 0  # of shared memory, of the tiles that wgmma reads
    unknown_guards: str = ""  # a multiply-add that is not in ``ffma``: its guard depends on sums of tensor cores
    textures: set[tuple[int, int]] = field(default_factory=set)  # (warp of a block, texture that it fetches from)
    issued: Counter[str] = field(default_factory=Counter)  # opcode -> warps
    warps: Counter[int] = field(default_factory=Counter)  # instruction -> warps that executed it
    lanes: Counter[int] = field(default_factory=Counter)  # instruction -> threads, also those predicated off
    executed: int = 0  # instructions of all threads
    longest: int = 0  # instructions of the busiest thread
    # Useful work (``sass/useful_work.py``): of all threads, and of the busiest one.
    products: int = 0
    most_products: int = 0
    useful_operations: int = 0
    most_operations: int = 0
    working_blocks: int = 0  # with any product ...
    busiest_products: int = 0  # ... and of the busiest thread of each of these in sum ...
    fewest_products: int = 1 << 62  # ... and of that with the fewest
    exchanges: int = 0  # of loaded numbers between lanes, warps
