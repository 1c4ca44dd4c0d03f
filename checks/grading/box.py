"""A control group for a process and its children: limits of memory and processor time, and the peak of memory. Needs
the right to make one; ``box`` yields None without."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


@dataclass(frozen=True)
class Box:
    """A control group. A child calls ``enter`` before ``exec``; read ``peak_mib`` after it has ended."""

    folders: tuple[Path, ...]
    peak: Path

    def enter(self) -> None:
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    @property
    def peak_mib(self) -> int:
        return int(self.peak.read_text()) >> 20


@contextlib.contextmanager
def box(name: str, memory_bytes: int, processors: float) -> Iterator[Box | None]:
    """Make a control group; remove it at the end. Version 1 has a tree for each resource, version 2 one for all.
    ``processors``: CPUs, may be a fraction."""
    quota = int(processors * PERIOD_US)
    one = (CGROUPS / "cgroup.controllers").exists()
    memory = CGROUPS / name if one else CGROUPS / "memory" / name
    settings: dict[Path, dict[str, int | str]]
    if one:
        settings = {memory: {"memory.max": memory_bytes, "memory.swap.max": 0, "cpu.max": f"{quota} {PERIOD_US}"}}
    else:
        times: dict[str, int | str] = {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": quota}
        settings = {memory: {"memory.limit_in_bytes": memory_bytes}, CGROUPS / "cpu" / name: times}
    made: list[Path] = []
    try:
        try:
            for folder, values in settings.items():
                folder.mkdir()
                made.append(folder)
                for key, value in values.items():
                    (folder / key).write_text(str(value))
        except OSError:
            yield None
            return
        yield Box(tuple(made), memory / ("memory.peak" if one else "memory.max_usage_in_bytes"))
    finally:
        for folder in made:
            _gone(folder.rmdir)


def _gone(remove: Callable[[], None]) -> None:
    """Remove a group, which may exist for a moment after its last process has ended; give up after 5 s."""
    import time

    for _ in range(50):
        try:
            return remove()
        except OSError:
            time.sleep(0.1)
    return None
