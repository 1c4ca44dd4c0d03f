"""Threads and memory that a finding names as its example."""

from __future__ import annotations

from typing import Literal

from gemm_lessons.engine.records.frozen import dataclass

Memory = Literal["global", "shared", "local"]
Does = Literal["", "load", "store", "atomic", "copy"]
Coordinates = tuple[int, ...]  # of a thread or a block: as many as the launch has dimensions


@dataclass(frozen=True)
class Location:
    """A byte of memory: of an array, by its source name, ``size`` bytes long.

    Without a name, the offset counts from the start of the block's shared or the thread's local memory, or is an
    address in global memory.
    """

    space: Memory
    array: str
    byte: int
    size: int = 0

    @property
    def before(self) -> int:
        """Bytes before the start of the array."""
        return -self.byte

    @property
    def past(self) -> int:
        """Bytes past the array's last one, from 0."""
        return self.byte - self.size


@dataclass(frozen=True)
class Actor:
    """An example thread and its action: an access of ``width`` bytes, or ("") something else."""

    thread: Coordinates
    block: Coordinates
    line: int | None = None
    effect: Does = ""
    width: int = 0
