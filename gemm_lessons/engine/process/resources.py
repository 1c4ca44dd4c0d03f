"""Cores and memory: what this process may use, within the limits of a container, and what has been used."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable
from typing import IO

CPU, MEMORY = "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max"


def cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def share_of_cores() -> float:
    """Return the number of cores that this process may keep busy: ``cores()``, or a container's quota if it is less."""
    there = float(cores())
    with contextlib.suppress(OSError, ValueError, IndexError), open(CPU, encoding="ascii") as file:
        quota, period = file.read().split()
        there = min(there, int(quota) / int(period))  # ValueError where it is "max"
    return there


def memory_bytes() -> int:
    """Return the bytes of memory of the machine, or of the container if it has less."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError), open(MEMORY, encoding="ascii") as file:
        there = min(there, int(file.read()))
    return there


def seconds_of_children() -> float:
    """Return the processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def meter() -> Callable[[], dict[str, float]]:
    """Return a function that returns the resources used so far: processor seconds of this process (``seconds``), and
    with those of its ended children (``all_seconds``); peak bytes of address space beyond the size at this call
    (``memory_bytes``), and peak resident bytes (``resident_bytes``). Bytes are 0 without /proc."""
    try:
        file: IO[bytes] | None = open("/proc/self/status", "rb", buffering=0)  # noqa: SIM115 (out of reach later)
    except OSError:
        file = None

    def facts() -> dict[str, int]:
        if file is None:
            return {}
        file.seek(0)
        lines = (line.split() for line in file.read().decode().splitlines())
        return {line[0]: int(line[1]) << 10 for line in lines if line[-1:] == ["kB"]}

    before = facts().get("VmSize:", 0)

    def used() -> dict[str, float]:
        after, own = facts(), time.process_time()
        return {
            "seconds": own,
            "all_seconds": own + seconds_of_children(),
            "memory_bytes": after.get("VmPeak:", 0) - before,
            "resident_bytes": after.get("VmHWM:", 0),
        }

    return used
