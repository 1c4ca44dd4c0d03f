"""What of this machine is ours: cores and memory, within the limits of a container."""

from __future__ import annotations

import contextlib
import os

CPU, MEMORY = "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max"


def cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def share_of_cores() -> float:
    """Return how many cores' worth of time there is."""
    there = float(cores())
    with contextlib.suppress(OSError, ValueError, IndexError), open(CPU, encoding="ascii") as file:
        quota, period = file.read().split()
        there = min(there, int(quota) / int(period))  # ValueError where it is "max"
    return there


def memory_bytes() -> int:
    """Return the bytes of memory."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError), open(MEMORY, encoding="ascii") as file:
        there = min(there, int(file.read()))
    return there
