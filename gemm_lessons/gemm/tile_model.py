"""Tile sizes from a GPU's data sheet alone: what registers, shared memory and DRAM allow.

The model is from G. Tan and others, "Fast Implementation of DGEMM on Fermi GPU", SC 2011. It counts the reads of each
thread, so a word that several lanes share counts once for each lane.
"""

from __future__ import annotations

from gemm_lessons.engine import GpuSpec
from gemm_lessons.engine.hardware import WARP, pipes_of
from gemm_lessons.engine.records import dataclass

REGISTER = 4  # bytes
OTHER_REGISTERS = 15  # per thread, for addresses and data in flight: the paper's number
SIDE = 16  # threads along each side of a block
DEEPEST = 16  # k of a tile; a larger value hides no more latency
BUFFERS = 2


@dataclass(frozen=True)
class TileModel:
    """The bounds for one element type on one GPU, and the smallest square tiles within them. There are none where
    shared memory bandwidth requires more than the registers hold."""

    gpu: GpuSpec
    word: int  # bytes of a number
    lanes: int  # multiply-adds per multiprocessor and clock

    @property
    def flops(self) -> float:
        """Return the peak in operations per second."""
        return 2 * self.gpu.sms * self.lanes * self.gpu.clock_hz

    @property
    def shared_bytes_per_s(self) -> float:
        """Return the bandwidth of the shared memory of all multiprocessors."""
        return self.gpu.bytes_per_clock * self.gpu.sms * self.gpu.clock_hz

    @property
    def least_block(self) -> float:
        """Return the least rows and columns of a block tile at which DRAM is fast enough."""
        return self.flops * self.word / self.gpu.dram_bytes_per_s

    @property
    def least_thread(self) -> float:
        """Return the least rows and columns of a thread tile at which shared memory is fast enough."""
        return self.flops * self.word / self.shared_bytes_per_s

    def registers(self, side: int) -> int:
        """Count the registers of a thread tile: its accumulators, and a column and a row of factors."""
        return self.word // REGISTER * (side * side + 2 * side)

    @property
    def most_registers(self) -> int:
        """Return the registers available to a thread tile."""
        return self.gpu.registers_per_thread - OTHER_REGISTERS

    @property
    def thread(self) -> int | None:
        """Return the rows and columns of a thread tile: the smallest sufficient power of 2."""
        side = _power(self.least_thread)
        return side if self.registers(side) <= self.most_registers else None

    @property
    def block(self) -> int | None:
        """Return the rows and columns of the block tile of 256 threads, or a larger tile where DRAM requires one."""
        return None if self.thread is None else max(SIDE * self.thread, _power(self.least_block))

    @property
    def depth(self) -> int:
        """Return k of a tile: the largest power of 2 up to 16 at which two buffers fit."""
        depth = DEEPEST
        while depth > 1 and self.shared_bytes(depth) > self.gpu.shared_bytes_per_block:
            depth //= 2
        return depth

    def shared_bytes(self, depth: int) -> int:
        """Return the shared memory of a block with two buffers."""
        return BUFFERS * 2 * (self.block or 0) * depth * self.word


def tile_model_of(gpu: GpuSpec, element: str) -> TileModel | None:
    """Return the model for float32 or float64; None for another type."""
    fp64_lanes = round(gpu.schedulers * WARP / pipes_of(gpu).fp64)
    lanes = {"float32": gpu.lanes_per_sm, "float64": fp64_lanes}.get(element)
    return None if lanes is None else TileModel(gpu, 8 if element == "float64" else 4, lanes)


def _power(least: float) -> int:
    """Return the next power of 2, with a tolerance: a peak is not known to a thousandth."""
    side = 1
    while side < least * 0.999:
        side *= 2
    return side
