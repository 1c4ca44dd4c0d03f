"""The state of one batch: registers of all lanes, shared and local memory, active lanes, and the trace.

Lanes are block-major and every block is padded to whole warps: lane = block_in_batch * padded_threads + thread.
A register is one row of a two-dimensional array, so that one NumPy call works on all lanes of all blocks at once.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import WARP, Batch, Record
from gemm_lessons.engine.machine import special
from gemm_lessons.engine.machine.images import Images
from gemm_lessons.engine.machine.maps import TensorMaps
from gemm_lessons.engine.machine.memory import POISON, RANK_SHIFT, shared_origin
from gemm_lessons.engine.machine.phase_history import PhaseHistory
from gemm_lessons.engine.machine.phases import Phases
from gemm_lessons.engine.machine.product_tally import ProductTally
from gemm_lessons.engine.ptx.cfg import line_of, read_by
from gemm_lessons.engine.ptx.records import Instruction, Kernel
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Actor, Coordinates, Details, Does, Location
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.semantics.operation import DTYPES

_FILES: dict[int | str, type[np.generic]] = {"pred": np.bool_, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Fault(Exception):
    """An error that would end the kernel on hardware: a ``finding``, the thread ``who`` and the memory's ``place``."""

    def __init__(
        self,
        kind: str,
        case: str,
        instruction: Instruction | None,
        who: Actor | None = None,
        facts: Details | None = None,
        place: Location | None = None,
    ) -> None:
        super().__init__(kind, case)
        self.kind, self.instruction = kind, instruction
        source = instruction.source if instruction is not None else None
        line, file = (source.line or None, source.file) if source else (None, "")
        actors = () if who is None else (who,)
        self.finding = Finding(
            kind, "error", case, line, file=file, place=place, actors=actors, facts=facts or Details()
        )  # fmt: skip

    def __str__(self) -> str:
        return self.finding.message


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a part of the machine, for another part that it refers to: without cycles, a machine and its
    memory end with the last reference to it, and not with the next garbage collection."""
    owner, function = weakref.ref(method.__self__), method.__func__  # type: ignore[attr-defined]
    return lambda *arguments: function(owner(), *arguments)


class State:
    """The arrays that the bound instructions of one kernel read and write, for ``blocks`` blocks in lockstep."""

    def __init__(
        self,
        kernel: Kernel,
        grid: Grid,
        blocks: int,
        shared_bytes: int,
        local_bytes: int,
        rows: Mapping[str, tuple[int | str, int]],
    ) -> None:
        self.grid = grid
        self.blocks = blocks
        self.threads = grid.threads
        self.padded = -(-grid.threads // WARP) * WARP
        self.lanes = blocks * self.padded
        self.warps = self.lanes // WARP
        # Round up to 16 bytes so that every block's window can be viewed at every width.
        self.shared_bytes = shared_bytes
        self.shared_origin = shared_origin(kernel.target)
        self.target = kernel.target
        self.shared_stride = -(-max(shared_bytes, 16) // 16) * 16
        self.shared: NDArray[np.uint8] = np.zeros(blocks * self.shared_stride // 8, np.int64).view(np.uint8)
        self.local_bytes = local_bytes
        self.local_stride = -(-max(local_bytes, 16) // 16) * 16
        local_size = self.lanes * self.local_stride if local_bytes else 16
        self.local: NDArray[np.uint8] = np.zeros(local_size // 8, np.int64).view(np.uint8)
        self.lane_block = np.repeat(np.arange(blocks), self.padded)
        self.lane_index = np.arange(self.lanes)
        thread = np.tile(np.arange(self.padded), blocks)
        self.exists = thread < self.threads
        self.cluster = math.prod(special.cluster_of(grid))  # blocks; those of a cluster are neighbours, by rank
        self.rank_bits = self.lane_block % self.cluster << RANK_SHIFT  # of addresses in the block's own shared memory
        self.rows = rows  # register -> its width, and its row in the file of this width
        counts = Counter(width for width, _ in rows.values())
        self.files = {width: np.zeros((counts[width], self.lanes), dtype) for width, dtype in _FILES.items()}
        self.versions: dict[str, int] = {}
        self.special: dict[str, Array | np.generic] = {
            **special.of_launch(grid, shared_bytes, kernel.target),
            **special.of_threads(thread, grid),
            **special.of_blocks(self.lane_block, grid),
        }
        self.allocate: Callable[[Array, Array], Array] = lambda sizes, lanes: lanes * 0  # called by malloc and free
        self.release: Callable[[Array, Array], int | None] = lambda addresses, lanes: None
        self.say: Callable[[Any, Any, Array | None], None] = lambda formats, arguments, active: None  # called by printf
        self.ticks: Callable[[], int] = lambda: 0  # the clock: instructions executed so far in the batch
        self.block_numbers = np.arange(blocks)  # in the grid, of the batch's blocks
        self.carry = np.zeros(self.lanes, np.bool_)  # carry flag of add.cc, addc, sub.cc, subc, mad.cc, madc
        self.active: Array | None = None  # lanes that execute now; None = all
        self.fenced = np.zeros(self.lanes, np.bool_)  # lanes with a fence since they last arrived at a cluster barrier
        self.trace: list[Record] = []
        self.notices: dict[str, Instruction] = {}  # kind of approximation -> first instruction that needed it
        self.alive = self.exists  # lanes that have not ended
        self.position = np.zeros(self.lanes, np.int32)  # basic block that a lane executes next
        self.exit_blocks = np.zeros(1, np.bool_)  # per basic block: its threads only end
        self.watched: frozenset[int] = frozenset()  # stores whose values are recorded
        self.undefined: dict[int, Array] = {}  # shuffle -> lanes that read an inactive lane when it last ran
        self.inactive_sources: dict[int, tuple[Actor, int]] = {}  # shuffle -> first such thread, and the lane it read
        self.poison = POISON  # byte of unwritten shared and local memory
        self.apart: dict[int, Any] = {}  # shuffle -> ``convergence.DivergedExchange``, of its next execution
        self.zeroed = slice(0)  # bytes of a block's shared memory that are 0 when it starts
        self.tally: ProductTally | None = None  # products are counted instead of added up
        self.counting = False  # an observer counts memory accesses
        self.slow_division = False  # a division of float32 takes its slow path in machine code
        self.placed = False  # record the true address of every global access
        self.tiles = False  # record boxes and the tiles of products
        self.history = PhaseHistory()
        self.in_flight: list[Callable[[], None]] = []  # bulk copies that have not yet reported to their mbarriers
        # Called with lanes that wait, the cells of their mbarriers, and the waiting instruction.
        self.stall: Callable[[Array, Array, Instruction], None] = lambda lanes, cell, instruction: None
        self.noted: set[int] = set()  # instructions whose irregular warps were recorded in this batch
        self.batch = Batch(0, self.block_numbers, blocks, self.threads, self.padded, 0)
        self.images = Images(())  # texture and surface objects
        self.maps = TensorMaps(())  # tensor maps
        self._scratch: dict[np.dtype[Any], Array] = {}
        self._kernel = kernel
        self.full = True  # registers of lanes outside `active` may be overwritten: they are padding or have ended

    def scratch(self, dtype: np.dtype[Any]) -> Array:
        """Return the array (lanes,) of an instruction's results before executing lanes receive them. All share it."""
        if dtype not in self._scratch:
            self._scratch[dtype] = np.zeros(self.lanes, dtype)
        return self._scratch[dtype]

    @functools.cached_property
    def phases(self) -> Phases:
        """Return the mbarriers in shared memory, created on first use."""
        return Phases(self.shared)

    def begin(self, numbers: Sequence[int], generation: int, place: int) -> None:
        """Reset the state for new blocks with these ``numbers``, the first one at ``place`` in the order of clusters.
        Slots after them stay empty: their lanes never run."""
        blocks = len(numbers)
        self.block_numbers = np.arange(numbers[0], numbers[0] + self.blocks)
        self.block_numbers[:blocks] = numbers
        for name, values in special.of_blocks(self.block_numbers[self.lane_block], self.grid).items():
            self.special[name][...] = values  # type: ignore[index]
        self.shared[...] = self.poison
        self.shared.reshape(self.blocks, self.shared_stride)[:, self.zeroed] = 0
        self.local[...] = self.poison
        self.noted.clear()
        self.fenced[:] = False
        self.in_flight.clear()
        self.history.begin()
        if "phases" in vars(self):
            self.phases.begin()
        self.batch = Batch(place, self.block_numbers, blocks, self.threads, self.padded, generation)
        for name in self.versions:  # invalidate what was memoised in the last batch
            self.versions[name] += 1

    @property
    def used(self) -> frozenset[str]:
        """Return the registers that the kernel reads."""
        return read_by(self._kernel)

    def lanes_of(self, name: str) -> Array:
        """Return a register's row in its file, (lanes,). Raise ``UnsupportedKernel`` for a register without a row."""
        if name not in self.rows:
            raise UnsupportedKernel(f"register {name} is not supported here")
        width, row = self.rows[name]
        lanes: Array = self.files[width][row]
        return lanes

    def row(self, name: str, code: str) -> Array:
        """Return a register's row as dtype ``code``: the low part if narrower. Raise ``UnsupportedKernel`` if wider."""
        lanes = self.lanes_of(name)
        dtype = np.dtype(DTYPES[code])
        if (dtype == np.bool_) != (lanes.dtype == np.bool_):
            raise UnsupportedKernel(f"register {name} is no {code}")
        if dtype.itemsize == lanes.dtype.itemsize:
            return lanes.view(dtype)
        if dtype.itemsize > lanes.dtype.itemsize:
            raise UnsupportedKernel(f"register {name} is narrower than the type {code}")
        low: Array = lanes.view(dtype)[:: lanes.dtype.itemsize // dtype.itemsize]
        return low

    def not_exiting(self) -> Array:
        """Return the mask of lanes that have not ended and do not end next."""
        result = self.alive.copy()
        result[result] = ~self.exit_blocks[self.position[result]]
        return result

    def in_shared(self, addresses: Array, lanes: Array | None, width: int, reaches: bool) -> tuple[Array, Array]:
        """Return the offsets of ``width`` bytes at ``addresses`` from the start of each lane's own shared memory, and
        which are out of bounds: outside the own block or, if the instruction ``reaches`` the cluster, outside all of
        its blocks. The windows of a cluster's blocks are ``shared_stride`` bytes apart."""
        if self.cluster == 1:
            offsets = addresses - self.shared_origin if self.shared_origin else addresses
            return offsets, np.asarray((offsets < 0) | (offsets > self.shared_bytes - width))
        ranks = addresses >> RANK_SHIFT
        own = (self.lane_block if lanes is None else self.lane_block[lanes]) % self.cluster
        offsets = addresses - (ranks << RANK_SHIFT) - self.shared_origin
        bad = (offsets < 0) | (offsets > self.shared_bytes - width) | (ranks < 0) | (ranks >= self.cluster)
        if not reaches:
            bad |= ranks != own
        return np.asarray(offsets + (ranks - own) * self.shared_stride), bad

    def lane_numbers(self, lanes: Array | None) -> Array:
        """Return the lane numbers ``lanes``, or all of them for None."""
        return self.lane_index if lanes is None else lanes

    def actor(self, lane: int, instruction: Instruction | None, effect: Does = "", width: int = 0) -> Actor:
        """Return the thread of ``lane`` as it executes ``instruction``."""
        thread = coordinates(lane % self.padded, self.grid.block)
        block = coordinates(int(self.block_numbers[lane // self.padded]), self.grid.grid)
        if instruction is None:
            return Actor(thread, block, None, effect, width)
        return Actor(thread, block, line_of(instruction), effect, width, self._kernel.called_in(instruction))


def coordinates(linear: int, shape: tuple[int, int, int]) -> Coordinates:
    """Return the coordinates of a linear thread or block number, without trailing dimensions of size 1."""
    x, y, z = linear % shape[0], linear // shape[0] % shape[1], linear // (shape[0] * shape[1])
    return (x, y, z)[: 3 if shape[2] > 1 else 2 if shape[1] > 1 else 1]
