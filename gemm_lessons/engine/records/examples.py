"""The threads and the memory that a finding names as its example."""

from __future__ import annotations

from typing import Literal

from gemm_lessons.engine.records.frozen import dataclass

Memory = Literal["global", "shared", "local"]
Does = Literal["", "load", "store", "atomic", "copy"]
Coordinates = tuple[int, ...]  # of a thread or a block: as many as the launch has dimensions


@dataclass(frozen=True)
class Location:
    """A byte of memory: of an array, by the name that its source gives it, and of ``size`` bytes. Without a name:
    counted from the start of the block's shared or the thread's own memory, or an address in global memory."""

    space: Memory
    array: str
    byte: int
    size: int = 0

    @property
    def before(self) -> int:
        """How many bytes before the array it is."""
        return -self.byte

    @property
    def past(self) -> int:
        """How many bytes past the array's last one it is, from 0."""
        return self.byte - self.size


@dataclass(frozen=True)
class Actor:
    """A thread that serves as an example, and what it did: an access of ``width`` bytes, or ("") something else."""

    thread: Coordinates
    block: Coordinates
    line: int | None = None
    effect: Does = ""
    width: int = 0
